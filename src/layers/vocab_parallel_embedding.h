// The token embedding and the output head, their vocabulary divided over the ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/api.h"
#include "distributed/partition.h"
#include "layers/forward_batch.h"
#include "layers/layer_context.h"

namespace quire {

/// A table of one row per token id. Each rank holds a part of the (padded) vocabulary.
class QUIRE_API VocabParallelTable {
 public:
  /// Registers `prefix`.weight.
  VocabParallelTable(LayerContext& context, const std::string& prefix, int64_t vocab_size, int64_t hidden_size);
  VocabParallelTable(const VocabParallelTable&) = delete;
  VocabParallelTable& operator=(const VocabParallelTable&) = delete;

  const VocabPartition& partition() const { return partition_; }
  const LinearWeight& weight() const { return *weight_; }
  int64_t vocab_size() const { return vocab_size_; }
  ParallelRank place() const { return place_; }
  /// The table as something that adapters change, called by its owner's name and kind.
  AdaptableLayer adaptable(AdaptableLayer::Kind kind, std::string prefix, LoraHook** hook) const;

 private:
  Status load(OpContext& context, const WeightSource& source, const WeightInfo& weight);

  int64_t vocab_size_;
  ParallelRank place_;
  VocabPartition partition_;
  std::unique_ptr<LinearWeight> weight_;
};

class QUIRE_API VocabParallelEmbedding {
 public:
  VocabParallelEmbedding(LayerContext& context, const std::string& prefix, int64_t vocab_size, int64_t hidden_size);
  VocabParallelEmbedding(const VocabParallelEmbedding&) = delete;
  VocabParallelEmbedding& operator=(const VocabParallelEmbedding&) = delete;

  /// out[i] = the row of token_ids[i], as its adapter has it, on all ranks: each looks up the ids that it holds, and
  /// the ranks' rows are summed. out: [tokens, hidden].
  void forward(ForwardBatch& batch, Tensor& out) const;

  int64_t hidden_size() const { return table_.weight().in_features(); }

 private:
  friend class ParallelLMHead;

  VocabParallelTable table_;
  LoraHook* lora_hook_ = nullptr;
};

/// The output head: logits of every token of the vocabulary. Tied, it multiplies with the embedding's own table, which
/// is stored once; to adapters it is a layer by itself in either case.
class QUIRE_API ParallelLMHead {
 public:
  ParallelLMHead(LayerContext& context, const std::string& prefix, int64_t vocab_size, int64_t hidden_size);
  ParallelLMHead(LayerContext& context, const std::string& prefix, const VocabParallelEmbedding& tied);
  ParallelLMHead(const ParallelLMHead&) = delete;
  ParallelLMHead& operator=(const ParallelLMHead&) = delete;

  /// hidden: [rows, hidden], whose rows `adapters` counts; gives [rows, vocab] in the context's workspace. Rank 0 alone
  /// needs logits, since it samples for all: elsewhere the result is undefined (Tensor::defined).
  Tensor logits(OpContext& context, const Tensor& hidden, std::span<const AdapterSegment> adapters) const;

 private:
  void register_layer(LayerContext& context, const std::string& prefix);

  std::unique_ptr<VocabParallelTable> own_;
  const VocabParallelTable* table_;
  std::vector<int64_t> shares_;  ///< of the vocabulary, by rank
  LoraHook* lora_hook_ = nullptr;
};

}  // namespace quire

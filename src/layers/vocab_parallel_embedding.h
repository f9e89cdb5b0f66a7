// The token embedding and the output head, their vocabulary divided over the ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "distributed/partition.h"
#include "layers/forward_batch.h"
#include "layers/layer_context.h"

namespace quire {

/// Rows of a table, one per token id. Each rank holds a part of the (padded) vocabulary.
class VocabParallelEmbedding {
 public:
  VocabParallelEmbedding(LayerContext& context, std::string prefix, int64_t vocab_size, int64_t hidden_size);
  VocabParallelEmbedding(const VocabParallelEmbedding&) = delete;
  VocabParallelEmbedding& operator=(const VocabParallelEmbedding&) = delete;

  /// out[i] = the row of token_ids[i]; zeros for ids of other ranks. out: [tokens, hidden].
  void forward(ForwardBatch& batch, Tensor& out) const;

  int64_t vocab_size() const { return vocab_size_; }
  int64_t hidden_size() const { return weight_->in_features(); }

 private:
  friend class ParallelLMHead;
  Status load(OpContext& context, const WeightSource& source, const WeightInfo& weight);

  int64_t vocab_size_;
  VocabPartition partition_;
  std::unique_ptr<LinearWeight> weight_;
};

/// The output head: logits of every token of the vocabulary. Tied, it multiplies with the embedding's own table, which
/// is stored once.
class ParallelLMHead {
 public:
  ParallelLMHead(LayerContext& context, std::string prefix, int64_t vocab_size, int64_t hidden_size);
  explicit ParallelLMHead(const VocabParallelEmbedding& tied);

  /// hidden: [rows, hidden]; gives [rows, vocab] in the context's workspace.
  Tensor logits(OpContext& context, const Tensor& hidden) const;

 private:
  std::unique_ptr<VocabParallelEmbedding> own_;
  const VocabParallelEmbedding* table_;
};

}  // namespace quire

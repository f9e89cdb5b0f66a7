#include "layers/vocab_parallel_embedding.h"

#include "layers/weight_loading.h"
#include "ops/linear.h"

namespace quire {

VocabParallelTable::VocabParallelTable(LayerContext& context, const std::string& prefix, int64_t vocab_size,
                                       int64_t hidden_size)
    : vocab_size_(vocab_size),
      partition_(partition_vocab(vocab_size, context.tensor_parallel,
                                 context.tensor_parallel.size == 1 ? 1 : ops::PackedMatrix::kPanelWidth)),
      weight_(context.linear_method.create_weight(context.op_context, context.arena, partition_.rows, hidden_size)) {
  context.parameters.add(
      prefix + ".weight", {vocab_size, hidden_size}, {},
      [this, &op_context = context.op_context](const WeightSource& source, const WeightInfo& weight, std::string_view) {
        return load(op_context, source, weight);
      });
}

Status VocabParallelTable::load(OpContext& context, const WeightSource& source, const WeightInfo& weight) {
  const RowRun run{partition_.range.begin, 0, partition_.range.size()};
  return load_matrix(context, source, weight, {&run, 1}, {0, weight_->in_features()}, *weight_);
}

AdaptableLayer VocabParallelTable::adaptable(AdaptableLayer::Kind kind, std::string prefix, LoraHook** hook) const {
  AdaptableLayer layer;
  layer.kind = kind;
  layer.prefix = std::move(prefix);
  layer.pieces = {{"", vocab_size_, partition_.range}};
  layer.in_features = weight_->in_features();
  layer.input = {0, weight_->in_features()};
  layer.weight = weight_.get();
  layer.hook = hook;
  return layer;
}

VocabParallelEmbedding::VocabParallelEmbedding(LayerContext& context, const std::string& prefix, int64_t vocab_size,
                                               int64_t hidden_size)
    : table_(context, prefix, vocab_size, hidden_size) {
  context.adaptable.add(table_.adaptable(AdaptableLayer::Kind::kEmbedding, prefix, &lora_hook_));
}

void VocabParallelEmbedding::forward(ForwardBatch& batch, Tensor& out) const {
  QUIRE_CHECK(table_.partition().range.begin == 0);
  table_.weight().gather(*batch.context, batch.token_ids, out);
  if (lora_hook_ != nullptr && !batch.adapters.empty()) {
    lora_hook_->apply(*batch.context, batch.adapters, 0, batch.token_ids, out);
  }
}

ParallelLMHead::ParallelLMHead(LayerContext& context, const std::string& prefix, int64_t vocab_size,
                               int64_t hidden_size)
    : own_(std::make_unique<VocabParallelTable>(context, prefix, vocab_size, hidden_size)), table_(own_.get()) {
  context.adaptable.add(table_->adaptable(AdaptableLayer::Kind::kLinear, prefix, &lora_hook_));
}

ParallelLMHead::ParallelLMHead(LayerContext& context, const std::string& prefix, const VocabParallelEmbedding& tied)
    : table_(&tied.table_) {
  context.adaptable.add(table_->adaptable(AdaptableLayer::Kind::kLinear, prefix, &lora_hook_));
}

Tensor ParallelLMHead::logits(OpContext& context, const Tensor& hidden,
                              std::span<const AdapterSegment> adapters) const {
  QUIRE_CHECK(table_->whole());
  Tensor logits = context.workspace->tensor(hidden.rows(), table_->weight().out_features());
  table_->weight().apply(context, hidden, Tensor(), logits);
  if (lora_hook_ != nullptr && !adapters.empty()) lora_hook_->apply(context, adapters, 0, hidden, logits);
  return logits;
}

}  // namespace quire

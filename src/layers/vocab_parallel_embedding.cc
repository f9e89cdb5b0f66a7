#include "layers/vocab_parallel_embedding.h"

#include "layers/weight_loading.h"
#include "ops/copy.h"

namespace quire {

VocabParallelEmbedding::VocabParallelEmbedding(LayerContext& context, std::string prefix, int64_t vocab_size,
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

Status VocabParallelEmbedding::load(OpContext& context, const WeightSource& source, const WeightInfo& weight) {
  const RowRun run{partition_.range.begin, 0, partition_.range.size()};
  return load_matrix(context, source, weight, {&run, 1}, {0, weight_->in_features()}, *weight_);
}

void VocabParallelEmbedding::forward(ForwardBatch& batch, Tensor& out) const {
  QUIRE_CHECK(partition_.range.begin == 0);
  weight_->gather(*batch.context, batch.token_ids, out);
}

ParallelLMHead::ParallelLMHead(LayerContext& context, std::string prefix, int64_t vocab_size, int64_t hidden_size)
    : own_(std::make_unique<VocabParallelEmbedding>(context, std::move(prefix), vocab_size, hidden_size)),
      table_(own_.get()) {}

ParallelLMHead::ParallelLMHead(const VocabParallelEmbedding& tied) : table_(&tied) {}

Tensor ParallelLMHead::logits(OpContext& context, const Tensor& hidden) const {
  QUIRE_CHECK(table_->partition_.rows == table_->vocab_size_);
  Tensor logits = context.workspace->tensor(hidden.rows(), table_->weight_->out_features());
  table_->weight_->apply(context, hidden, Tensor(), logits);
  return logits;
}

}  // namespace quire

#include "layers/vocab_parallel_embedding.h"

#include "distributed/communication_op.h"
#include "layers/weight_loading.h"
#include "ops/linear.h"
#include "ops/listed_tokens.h"

namespace quire {

namespace {

VocabPartition part_of(int64_t vocab_size, ParallelRank place) {
  return partition_vocab(vocab_size, place, place.size == 1 ? 1 : ops::PackedMatrix::kPanelWidth);
}

}  // namespace

VocabParallelTable::VocabParallelTable(LayerContext& context, const std::string& prefix, int64_t vocab_size,
                                       int64_t hidden_size)
    : vocab_size_(vocab_size),
      place_(context.tensor_parallel),
      partition_(part_of(vocab_size, place_)),
      weight_((context.table_method != nullptr ? *context.table_method : context.linear_method)
                  .create_weight(context.op_context, context.arena, partition_.rows, hidden_size)) {
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
  OpContext& context = *batch.context;
  const Workspace::Scope scope(*context.workspace);
  Tensor ids = batch.token_ids;
  const bool divided = table_.place().size > 1;
  if (divided) {
    ids = context.workspace->tensor(1, batch.tokens(), DType::kInt32);
    const Range& range = table_.partition().range;
    ops::local_ids(context, batch.token_ids, range.begin, range.size(), ids);
  }
  table_.weight().gather(context, ids, out);
  if (lora_hook_ != nullptr && !batch.adapters.empty()) lora_hook_->apply(context, batch.adapters, 0, ids, out);
  if (divided) tensor_model_parallel_all_reduce(context, out);
}

void ParallelLMHead::register_layer(LayerContext& context, const std::string& prefix) {
  const int ranks = table_->place().size;
  for (int rank = 0; rank < ranks; ++rank) {
    shares_.push_back(part_of(table_->vocab_size(), {rank, ranks}).range.size());
  }
  context.adaptable.add(table_->adaptable(AdaptableLayer::Kind::kLinear, prefix, &lora_hook_));
}

ParallelLMHead::ParallelLMHead(LayerContext& context, const std::string& prefix, int64_t vocab_size,
                               int64_t hidden_size)
    : own_(std::make_unique<VocabParallelTable>(context, prefix, vocab_size, hidden_size)), table_(own_.get()) {
  register_layer(context, prefix);
}

ParallelLMHead::ParallelLMHead(LayerContext& context, const std::string& prefix, const VocabParallelEmbedding& tied)
    : table_(&tied.table_) {
  register_layer(context, prefix);
}

Tensor ParallelLMHead::logits(OpContext& context, const Tensor& hidden,
                              std::span<const AdapterSegment> adapters) const {
  if (context.failure) return {};
  Workspace& workspace = *context.workspace;
  const ParallelRank place = table_->place();
  Tensor all;
  if (place.size > 1 && place.rank == 0) all = workspace.tensor(hidden.rows(), table_->vocab_size());
  Tensor own = workspace.tensor(hidden.rows(), table_->weight().out_features());
  table_->weight().apply(context, hidden, Tensor(), own);
  if (lora_hook_ != nullptr && !adapters.empty()) lora_hook_->apply(context, adapters, 0, hidden, own);
  if (place.size == 1) return own;
  tensor_model_parallel_gather(context, own.slice_cols(0, table_->partition().range.size()), all, 0, -1, shares_);
  return context.failure ? Tensor() : all;
}

}  // namespace quire

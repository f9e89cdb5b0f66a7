#include "layers/linear.h"

#include <span>

#include "distributed/communication_op.h"
#include "layers/weight_loading.h"
#include "ops/copy.h"

namespace quire {

LinearBase::LinearBase(LayerContext& context, const std::string& prefix, Shape shape, AdaptableLayer::Division division)
    : pieces_(std::move(shape.pieces)), input_(shape.input), storage_(context.storage) {
  const int64_t local = local_features(pieces_);
  const int64_t total = total_features(pieces_);
  OpContext& op_context = context.op_context;
  weight_ = context.linear_method.create_weight(op_context, context.arena, local, input_.size());

  AdaptableLayer adaptable;
  adaptable.division = context.tensor_parallel.size > 1 ? division : AdaptableLayer::Division::kNone;
  adaptable.prefix = prefix;
  adaptable.pieces = pieces_;
  adaptable.in_features = shape.in_features;
  adaptable.input = input_;
  adaptable.weight = weight_.get();
  adaptable.bias = &bias_;
  adaptable.add_bias_here = shape.add_bias_here;
  adaptable.hook = &lora_hook_;
  context.adaptable.add(std::move(adaptable));

  std::vector<ParameterPiece> weight_pieces;
  std::vector<ParameterPiece> bias_pieces;
  if (pieces_.size() > 1) {
    for (const OutputPiece& piece : pieces_) {
      weight_pieces.push_back({piece.id, {piece.size, shape.in_features}});
      bias_pieces.push_back({piece.id, {piece.size}});
    }
  }
  context.parameters.add(
      prefix + ".weight", {total, shape.in_features}, std::move(weight_pieces),
      [this, &op_context](const WeightSource& source, const WeightInfo& weight, std::string_view piece) {
        return load_weight(op_context, source, weight, piece);
      });
  if (!shape.bias) return;
  if (shape.add_bias_here) bias_ = Tensor::empty(1, local, DType::kFloat32, op_context.device);
  context.parameters.add(
      prefix + ".bias", {total}, std::move(bias_pieces),
      [this, &op_context](const WeightSource& source, const WeightInfo& weight, std::string_view piece) {
        return load_bias(op_context, source, weight, piece);
      });
}

Status LinearBase::load_weight(OpContext& context, const WeightSource& source, const WeightInfo& weight,
                               std::string_view piece) {
  return load_matrix(context, source, weight, runs_of(pieces_, piece), input_, *weight_);
}

Status LinearBase::load_bias(OpContext& context, const WeightSource& source, const WeightInfo& weight,
                             std::string_view piece) {
  if (!bias_.defined()) return {};
  QUIRE_ASSIGN_OR_RETURN(const std::vector<float> values, load_vector(source, weight, storage_));
  for (const RowRun& run : runs_of(pieces_, piece)) {
    Tensor target = bias_.slice_cols(run.local, run.count);
    ops::copy_from_host(
        context,
        std::span<const float>(values).subspan(static_cast<size_t>(run.source), static_cast<size_t>(run.count)),
        target);
  }
  return {};
}

void LinearBase::apply(ForwardBatch& batch, const Tensor& x, Tensor& out, int64_t first_row) const {
  if (batch.context->failure) return;
  OpContext& context = *batch.context;
  if (lora_hook_ == nullptr || batch.adapters.empty()) return weight_->apply(context, x, bias_, out);
  const Workspace::Scope scope(*context.workspace);
  weight_->apply(context, x, bias_, out, lora_hook_->prepare(context, batch.adapters, first_row, x, out));
  lora_hook_->finish(context, batch.adapters, first_row, x, out);
}

ReplicatedLinear::ReplicatedLinear(LayerContext& context, std::string prefix, int64_t in_features, int64_t out_features,
                                   bool bias)
    : LinearBase(context, std::move(prefix),
                 {{{"", out_features, {0, out_features}}}, in_features, {0, in_features}, bias}) {}

ColumnParallelLinear::ColumnParallelLinear(LayerContext& context, std::string prefix, int64_t in_features,
                                           int64_t out_features, bool bias, int64_t multiple, bool gather)
    : ColumnParallelLinear(context, prefix,
                           Shape{{{"", out_features, partition(out_features, context.tensor_parallel, multiple)}},
                                 in_features,
                                 {0, in_features},
                                 bias}) {
  if (gather) gather_output(context.tensor_parallel, multiple);
}

void ColumnParallelLinear::gather_output(ParallelRank place, int64_t multiple) {
  if (place.size == 1) return;
  for (const OutputPiece& piece : pieces()) {
    std::vector<int64_t> shares;
    for (int rank = 0; rank < place.size; ++rank) {
      shares.push_back(partition(piece.size, {rank, place.size}, multiple).size());
    }
    gathered_.push_back(std::move(shares));
  }
}

void ColumnParallelLinear::forward(ForwardBatch& batch, const Tensor& x, Tensor& out, int64_t first_row) const {
  if (gathered_.empty()) return apply(batch, x, out, first_row);
  const Workspace::Scope scope(*batch.context->workspace);
  Tensor own = batch.context->workspace->tensor(x.rows(), out_features());
  apply(batch, x, own, first_row);
  int64_t local = 0;
  int64_t whole = 0;
  for (size_t i = 0; i < gathered_.size(); ++i) {
    const OutputPiece& piece = pieces()[i];
    Tensor target = out.slice_cols(whole, piece.size);
    tensor_model_parallel_all_gather(*batch.context, own.slice_cols(local, piece.local.size()), target, -1,
                                     gathered_[i]);
    local += piece.local.size();
    whole += piece.size;
  }
}

namespace {

std::vector<OutputPiece> divide_pieces(const std::vector<MergedColumnParallelLinear::Piece>& pieces, ParallelRank place,
                                       int64_t multiple) {
  std::vector<OutputPiece> divided;
  for (const auto& piece : pieces) divided.push_back({piece.id, piece.size, partition(piece.size, place, multiple)});
  return divided;
}

std::vector<OutputPiece> head_pieces(const HeadPartition& heads, int64_t head_dim, int64_t query_heads,
                                     int64_t kv_heads) {
  const Range query{heads.query_heads.begin * head_dim, heads.query_heads.end * head_dim};
  const Range kv{heads.kv_heads.begin * head_dim, heads.kv_heads.end * head_dim};
  return {{"q", query_heads * head_dim, query}, {"k", kv_heads * head_dim, kv}, {"v", kv_heads * head_dim, kv}};
}

}  // namespace

MergedColumnParallelLinear::MergedColumnParallelLinear(LayerContext& context, std::string prefix, int64_t in_features,
                                                       const std::vector<Piece>& pieces, bool bias, int64_t multiple,
                                                       bool gather)
    : ColumnParallelLinear(
          context, prefix,
          {divide_pieces(pieces, context.tensor_parallel, multiple), in_features, {0, in_features}, bias}) {
  if (gather) gather_output(context.tensor_parallel, multiple);
}

QKVParallelLinear::QKVParallelLinear(LayerContext& context, std::string prefix, int64_t hidden_size, int64_t head_dim,
                                     const HeadPartition& heads, int64_t total_query_heads, int64_t total_kv_heads,
                                     bool bias)
    : ColumnParallelLinear(
          context, prefix,
          {head_pieces(heads, head_dim, total_query_heads, total_kv_heads), hidden_size, {0, hidden_size}, bias}) {}

RowParallelLinear::RowParallelLinear(LayerContext& context, std::string prefix, int64_t in_features, Range input,
                                     int64_t out_features, bool bias, RowParallelOptions options)
    : LinearBase(context, prefix,
                 {{
                      {"", out_features, {0, out_features}},
                  },
                  in_features,
                  input,
                  bias,
                  context.tensor_parallel.rank == 0},
                 AdaptableLayer::Division::kInput),
      cut_input_(!options.input_is_parallel),
      reduce_(options.reduce_results && context.tensor_parallel.size > 1) {}

void RowParallelLinear::forward(ForwardBatch& batch, const Tensor& x, Tensor& out, int64_t first_row) const {
  apply(batch, cut_input_ ? x.slice_cols(input().begin, input().size()) : x, out, first_row);
  if (reduce_) tensor_model_parallel_all_reduce(*batch.context, out);
}

}  // namespace quire

#include "lora/lora_layer_hook.h"

#include <algorithm>

#include "distributed/communication_op.h"
#include "lora/lora_adapter.h"
#include "ops/listed_tokens.h"

namespace quire {
namespace {

/// A segment as far as it lies in the rows [first_row, first_row + rows), and its adapter's part in the layer.
struct Part {
  int64_t row = 0;  ///< counted from first_row
  int64_t rows = 0;
  const LoraLayer* layer = nullptr;
};

Part part_of(const AdapterSegment& segment, size_t layer, int64_t first_row, int64_t rows) {
  const int64_t begin = std::max<int64_t>(segment.row_begin - first_row, 0);
  const int64_t end = std::min(segment.row_begin + segment.row_count - first_row, rows);
  return {begin, std::max<int64_t>(end - begin, 0), segment.adapter->layer(layer)};
}

/// The logits of retrained tokens, instead of those that the base's rows gave.
void replace_tokens(OpContext& context, const LoraTokens& tokens, const Tensor& x, Tensor& out) {
  const Workspace::Scope scope(*context.workspace);
  Tensor own = context.workspace->tensor(x.rows(), tokens.ids.cols());
  ops::linear(context, x, tokens.rows, Tensor(), own);
  ops::scatter_columns(context, own, tokens.ids, out);
}

}  // namespace

void LoraLayerHook::apply(OpContext& context, std::span<const AdapterSegment> segments, int64_t first_row,
                          const Tensor& x, Tensor& out) {
  const Workspace::Scope scope(*context.workspace);
  ops::grouped_linear(context, prepare(context, segments, first_row, x, out));
  finish(context, segments, first_row, x, out);
}

std::span<const ops::LinearPart> LoraLayerHook::prepare(OpContext& context, std::span<const AdapterSegment> segments,
                                                        int64_t first_row, const Tensor& x, Tensor& out) {
  scratch_.shrink.clear();
  scratch_.meetings.clear();
  scratch_.expand.clear();
  scratch_.replace.clear();
  for (const AdapterSegment& segment : segments) {
    const Part part = part_of(segment, layer_, first_row, out.rows());
    if (part.layer == nullptr || part.rows == 0) continue;
    Tensor out_rows = out.slice_rows(part.row, part.rows);
    if (kind_ == AdaptableLayer::Kind::kEmbedding) {
      add_embedding(context, *part.layer, x.slice_cols(part.row, part.rows), out_rows);
    } else {
      add_linear(context, *part.layer, x.slice_rows(part.row, part.rows), out_rows);
    }
  }
  ops::grouped_linear(context, scratch_.shrink);
  meet(context);
  return scratch_.expand;
}

void LoraLayerHook::finish(OpContext& context, std::span<const AdapterSegment> segments, int64_t first_row,
                           const Tensor& x, Tensor& out) {
  ops::grouped_linear(context, scratch_.replace);
  for (const AdapterSegment& segment : segments) {
    const Part part = part_of(segment, layer_, first_row, out.rows());
    if (part.layer == nullptr || part.rows == 0 || !part.layer->tokens) continue;
    Tensor out_rows = out.slice_rows(part.row, part.rows);
    if (kind_ == AdaptableLayer::Kind::kEmbedding) {
      ops::gather_listed_rows(context, x.slice_cols(part.row, part.rows), part.layer->tokens->ids,
                              part.layer->tokens->rows, out_rows);
    } else {
      replace_tokens(context, *part.layer->tokens, x.slice_rows(part.row, part.rows), out_rows);
    }
  }
}

// Where b has the columns of one rank alone, the others' are still finished: gains and offsets are for all of them.
void LoraLayerHook::add_slice(const LoraSlice& slice, const Tensor& shrunk, const Tensor& out) {
  const int64_t begin = slice.b ? slice.b_column : 0;
  const int64_t end = slice.b ? begin + slice.b->out_features : 0;
  const auto add = [&](int64_t column, int64_t columns, bool product) {
    if (columns == 0 || (!product && !slice.gain.defined() && !slice.offset.defined())) return;
    ops::LinearPart part;
    if (product) {
      part.x = shrunk.slice_cols(slice.first_rank, slice.rank);
      part.weight = &*slice.b;
    }
    part.out = out.slice_cols(slice.column + column, columns);
    part.accumulate = true;
    part.scale = slice.scale;
    if (slice.gain.defined()) part.gain = slice.gain.slice_cols(column, columns);
    if (slice.offset.defined()) part.bias = slice.offset.slice_cols(column, columns);
    scratch_.expand.push_back(std::move(part));
  };
  add(0, begin, false);
  add(begin, end - begin, true);
  add(end, slice.columns - end, false);
}

Tensor LoraLayerHook::shrink(OpContext& context, const LoraLayer& layer, const Tensor& x) {
  const bool gathers = layer.meeting == LoraLayer::Meeting::kGather;
  Tensor whole = context.workspace->tensor(x.rows(), layer.ranks);
  Tensor part = whole;
  if (gathers) part = context.workspace->tensor(x.rows(), layer.a_shares[static_cast<size_t>(layer.a_share)]);
  if (layer.a) {
    ops::LinearPart product;
    product.x = x;
    product.weight = &*layer.a;
    product.out = part;
    scratch_.shrink.push_back(std::move(product));
  }
  if (layer.meeting != LoraLayer::Meeting::kNone) scratch_.meetings.push_back({&layer, std::move(part), whole});
  return whole;
}

void LoraLayerHook::meet(OpContext& context) {
  for (LoraScratch::Meeting& meeting : scratch_.meetings) {
    if (meeting.layer->meeting == LoraLayer::Meeting::kReduce) {
      tensor_model_parallel_all_reduce(context, meeting.whole);
    } else {
      tensor_model_parallel_all_gather(context, meeting.part, meeting.whole, -1, meeting.layer->a_shares);
    }
  }
}

void LoraLayerHook::add_linear(OpContext& context, const LoraLayer& layer, const Tensor& x, const Tensor& out) {
  Tensor shrunk;
  if (layer.ranks > 0) shrunk = shrink(context, layer, x);
  for (const LoraSlice& slice : layer.slices) {
    if (!slice.weight) {
      add_slice(slice, shrunk, out);
      continue;
    }
    ops::LinearPart part;
    part.x = x;
    part.weight = &*slice.weight;
    part.out = out.slice_cols(slice.column, slice.columns);
    part.bias = slice.offset;
    scratch_.replace.push_back(std::move(part));
  }
}

void LoraLayerHook::add_embedding(OpContext& context, const LoraLayer& layer, const Tensor& ids, Tensor& out) {
  for (const LoraSlice& slice : layer.slices) {
    if (slice.weight) {
      ops::gather_rows(context, *slice.weight, ids, out);
      continue;
    }
    Tensor shrunk = context.workspace->tensor(out.rows(), slice.rank);
    ops::gather_rows(context, *layer.a, ids, shrunk);
    add_slice(slice, shrunk, out);
  }
}

NormVectors LoraNormHook::vectors_of(const LoraAdapter& adapter) const {
  const LoraLayer* const layer = adapter.layer(layer_);
  if (layer == nullptr) return {};
  const auto vector = [](const Tensor& tensor) { return tensor.defined() ? &tensor : nullptr; };
  return {vector(layer->norm->weight), vector(layer->norm->bias)};
}

}  // namespace quire

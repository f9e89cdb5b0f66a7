#include "lora/lora_layer_hook.h"

#include <algorithm>

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

void LoraLayerHook::add_slice(const LoraSlice& slice, const Tensor& shrunk, const Tensor& out) {
  ops::LinearPart part;
  if (slice.b) {
    part.x = shrunk.slice_cols(slice.first_rank, slice.rank);
    part.weight = &*slice.b;
  }
  part.out = out.slice_cols(slice.column, slice.columns);
  part.accumulate = true;
  part.scale = slice.scale;
  part.gain = slice.gain;
  part.bias = slice.offset;
  scratch_.expand.push_back(std::move(part));
}

void LoraLayerHook::add_linear(OpContext& context, const LoraLayer& layer, const Tensor& x, const Tensor& out) {
  Tensor shrunk;
  if (layer.a) {
    shrunk = context.workspace->tensor(x.rows(), layer.a->out_features);
    ops::LinearPart part;
    part.x = x;
    part.weight = &*layer.a;
    part.out = shrunk;
    scratch_.shrink.push_back(std::move(part));
  }
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

#include "lora/lora_layer_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "layers/weight_loading.h"
#include "lora/adapter_tensors.h"
#include "lora/layer_base_copy.h"
#include "lora/lora_norms.h"
#include "ops/copy.h"

namespace quire {
namespace {

int64_t count_of(std::span<const RowRun> runs) {
  int64_t count = 0;
  for (const RowRun& run : runs) count += run.count;
  return count;
}

/// The values of `runs`, one after the other.
std::vector<double> pick(const std::vector<float>& values, std::span<const RowRun> runs) {
  std::vector<double> picked;
  for (const RowRun& run : runs) {
    picked.insert(picked.end(), values.begin() + run.source, values.begin() + run.source + run.count);
  }
  return picked;
}

bool whole_input(const AdaptableLayer& layer) { return layer.input == Range{0, layer.in_features}; }

}  // namespace

Status LoraLayerBuilder::pack(const WeightInfo& tensor, std::span<const RowRun> runs, int64_t first_row, Range input,
                              ops::PackedMatrix& matrix) {
  std::vector<float> scratch;
  for (const RowRun& run : runs) {
    QUIRE_ASSIGN_OR_RETURN(MatrixView view, tensors_.read_rows(tensor, run.source, run.count, scratch));
    view.data = static_cast<const char*>(view.data) + static_cast<size_t>(input.begin) * dtype_size(view.dtype);
    view.cols = input.size();
    ops::pack_rows(context_, view, run.local - first_row, 0, matrix);
  }
  return {};
}

Result<std::vector<float>> LoraLayerBuilder::values_of(const WeightInfo& tensor) const {
  return load_vector(tensors_, tensor, DType::kFloat32);
}

Tensor LoraLayerBuilder::vector_of(std::span<const double> values) {
  const auto count = static_cast<int64_t>(values.size());
  const std::vector<float> rounded(values.begin(), values.end());
  Tensor tensor =
      Tensor::view(arena_.allocate(values.size() * sizeof(float)), 1, count, DType::kFloat32, context_.device);
  ops::copy_from_host(context_, std::span<const float>(rounded), tensor);
  return tensor;
}

Status LoraLayerBuilder::build(const AdaptableLayer& layer, std::span<const LoraFit> fits, LoraLayer& result) {
  for (const LoraFit& fit : fits) {
    QUIRE_RETURN_IF_ERROR(check_base_copy(context_, name_, tensors_, layer, fit));
    for (const WeightInfo* tensor : fit.module->tensors()) {
      if (tensor != fit.module->base_copy) QUIRE_RETURN_IF_ERROR(check_range(tensors_, *tensor, storage_));
    }
  }
  switch (layer.kind) {
    case AdaptableLayer::Kind::kNorm:
      return add_norm(*fits.front().module, result);
    case AdaptableLayer::Kind::kEmbedding:
      QUIRE_RETURN_IF_ERROR(add_embedding(layer, *fits.front().module, result));
      break;
    case AdaptableLayer::Kind::kLinear:
      QUIRE_RETURN_IF_ERROR(add_linear(layer, fits, result));
      break;
  }
  for (const LoraFit& fit : fits) QUIRE_RETURN_IF_ERROR(add_tokens(layer, *fit.module, result));
  return {};
}

void LoraLayerBuilder::wait_for_norms(const AdaptableLayer& layer, const AdapterModule& module,
                                      std::span<const RowRun> runs, LoraLayer& result, const LoraSlice& slice,
                                      std::span<const double> squares) {
  waiting_.push_back(
      {&layer, &module, {runs.begin(), runs.end()}, &result, slice.column, sums_.size(), squares.size()});
  sums_.insert(sums_.end(), squares.begin(), squares.end());
}

Status LoraLayerBuilder::finish() {
  for (const Waiting& waiting : waiting_) {
    const auto squares = std::span<const double>(sums_).subspan(waiting.first, waiting.count);
    const auto slice = std::ranges::find(waiting.result->slices, waiting.column, &LoraSlice::column);
    if (slice == waiting.result->slices.end()) continue;  // this rank has no part in it
    const std::vector<double> norms = roots_of(squares);
    if (waiting.layer->kind == AdaptableLayer::Kind::kEmbedding) {
      QUIRE_RETURN_IF_ERROR(set_gain(*waiting.module, norms, *slice));
    } else {
      QUIRE_RETURN_IF_ERROR(finish_slice(*waiting.layer, *waiting.module, waiting.runs, norms, *slice));
    }
  }
  return {};
}

void LoraLayerBuilder::make_a(const AdaptableLayer& layer, int64_t ranks, LoraLayer& result) {
  result.ranks = ranks;
  if (ranks == 0) return;
  int64_t own = ranks;
  if (fully_sharded_.size > 1 && layer.division == AdaptableLayer::Division::kOutput) {
    result.meeting = LoraLayer::Meeting::kGather;
    result.a_share = fully_sharded_.rank;
    for (int rank = 0; rank < fully_sharded_.size; ++rank) {
      result.a_shares.push_back(partition(ranks, {rank, fully_sharded_.size}).size());
    }
    own = result.a_shares[static_cast<size_t>(result.a_share)];
  } else if (fully_sharded_.size > 1 && layer.division == AdaptableLayer::Division::kInput) {
    result.meeting = LoraLayer::Meeting::kReduce;
  }
  if (own == 0) return;
  result.a = ops::make_packed_matrix(arena_, own, layer.input.size(), storage_);
  ops::zero_padding(context_, *result.a);
}

Status LoraLayerBuilder::pack_a(const AdaptableLayer& layer, const AdapterModule& module, const LoraSlice& slice,
                                LoraLayer& result) {
  const bool gathers = result.meeting == LoraLayer::Meeting::kGather;
  const Range own = gathers ? partition(result.ranks, fully_sharded_) : Range{0, result.ranks};
  const int64_t begin = std::max(slice.first_rank, own.begin);
  const int64_t end = std::min(slice.first_rank + slice.rank, own.end);
  if (begin >= end) return {};
  const RowRun rows{begin - slice.first_rank, begin - own.begin, end - begin};
  return pack(*module.a, {&rows, 1}, 0, layer.input, *result.a);
}

Status LoraLayerBuilder::add_linear(const AdaptableLayer& layer, std::span<const LoraFit> fits, LoraLayer& result) {
  const bool gathers = fully_sharded_.size > 1 && layer.division == AdaptableLayer::Division::kOutput;
  // Without outputs of a module a rank needs nothing of it, or its share of A for the others.
  const auto concerns = [&](const LoraFit& fit) { return gathers || !runs_of(layer.pieces, fit.piece).empty(); };
  int64_t ranks = 0;
  for (const LoraFit& fit : fits) {
    if (fit.module->a != nullptr && concerns(fit)) ranks += fit.module->rank;
  }
  make_a(layer, ranks, result);
  int64_t next_rank = 0;
  for (const LoraFit& fit : fits) {
    const AdapterModule& module = *fit.module;
    if (!concerns(fit) || (module.a == nullptr && module.bias == nullptr && module.weight == nullptr)) continue;
    LoraSlice slice;
    slice.scale = module.scale;
    slice.first_rank = next_rank;
    slice.rank = module.a == nullptr ? 0 : module.rank;
    next_rank += slice.rank;
    if (module.a != nullptr) QUIRE_RETURN_IF_ERROR(pack_a(layer, module, slice, result));
    const std::vector<RowRun> runs = runs_of(layer.pieces, fit.piece);
    if (runs.empty()) continue;
    slice.column = runs.front().local;
    slice.columns = count_of(runs);
    QUIRE_RETURN_IF_ERROR(pack_slice(layer, module, runs, result, slice));
    std::vector<double> squares;
    if (module.magnitude != nullptr) {
      QUIRE_ASSIGN_OR_RETURN(squares, squares_of(layer, module, runs, slice));
    }
    if (squares.empty() || whole_input(layer)) {
      QUIRE_RETURN_IF_ERROR(finish_slice(layer, module, runs, roots_of(squares), slice));
    } else {
      wait_for_norms(layer, module, runs, result, slice, squares);
    }
    result.slices.push_back(std::move(slice));
  }
  std::ranges::sort(result.slices, {}, &LoraSlice::column);
  return {};
}

// Both factors are packed anew, since this rank may keep no more than a part of either.
Result<std::vector<double>> LoraLayerBuilder::squares_of(const AdaptableLayer& layer, const AdapterModule& module,
                                                         std::span<const RowRun> runs, const LoraSlice& slice) {
  HugePageArena scratch(false);
  ops::PackedMatrix a = ops::make_packed_matrix(scratch, slice.rank, layer.input.size(), storage_);
  ops::PackedMatrix b = ops::make_packed_matrix(scratch, slice.columns, slice.rank, storage_);
  ops::zero_padding(context_, a);
  ops::zero_padding(context_, b);
  const RowRun all_ranks{0, 0, slice.rank};
  QUIRE_RETURN_IF_ERROR(pack(*module.a, {&all_ranks, 1}, 0, layer.input, a));
  QUIRE_RETURN_IF_ERROR(pack(*module.b, runs, slice.column, {0, slice.rank}, b));
  return row_squares(context_, *layer.weight, slice.column, {a, 0, b, slice.scale});
}

Status LoraLayerBuilder::pack_slice(const AdaptableLayer& layer, const AdapterModule& module,
                                    std::span<const RowRun> runs, LoraLayer& result, LoraSlice& slice) {
  if (module.weight != nullptr) {
    slice.weight = ops::make_packed_matrix(arena_, slice.columns, layer.input.size(), storage_);
    ops::zero_padding(context_, *slice.weight);
    return pack(*module.weight, runs, slice.column, layer.input, *slice.weight);
  }
  if (module.a == nullptr) return {};
  std::vector<RowRun> own(runs.begin(), runs.end());
  if (result.meeting == LoraLayer::Meeting::kReduce) {
    // Whole panels, so that the base layer's tasks can add them.
    const int64_t multiple = partition_multiple(slice.columns, fully_sharded_.size, ops::PackedMatrix::kPanelWidth);
    const Range share = partition(slice.columns, fully_sharded_, multiple);
    slice.b_column = share.begin;
    if (share.size() == 0) return {};
    own = {{runs.front().source + share.begin, slice.column + share.begin, share.size()}};
  }
  slice.b = ops::make_packed_matrix(arena_, count_of(own), slice.rank, storage_);
  ops::zero_padding(context_, *slice.b);
  return pack(*module.b, own, slice.column + slice.b_column, {0, slice.rank}, *slice.b);
}

// With y = W x + bias, what the adapter wants is gain * (W x + scale * (B A x + lora_bias)) + its bias. So what is
// added to gain * (y + scale * B A x) is its bias + gain * (scale * lora_bias - bias).
Status LoraLayerBuilder::finish_slice(const AdaptableLayer& layer, const AdapterModule& module,
                                      std::span<const RowRun> runs, std::span<const double> norms, LoraSlice& slice) {
  const auto columns = static_cast<size_t>(slice.columns);
  std::vector<double> gain(columns, 1.0);
  if (!norms.empty()) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<float> magnitudes, values_of(*module.magnitude));
    gain = pick(magnitudes, runs);
    for (size_t i = 0; i < columns; ++i) gain[i] /= norms[i];
    slice.gain = vector_of(gain);
  }
  if (!layer.add_bias_here) return {};
  std::vector<float> base(columns);
  const bool has_base = layer.bias != nullptr && layer.bias->defined();
  if (has_base) ops::copy_to_host(context_, layer.bias->slice_cols(slice.column, slice.columns), base);
  std::vector<double> bias(base.begin(), base.end());
  if (module.bias != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<float> own, load_vector(tensors_, *module.bias, storage_));
    bias = pick(own, runs);
  }
  if (module.weight != nullptr) {
    if (has_base || module.bias != nullptr) slice.offset = vector_of(bias);
    return {};
  }
  std::vector<double> offset(columns);
  for (size_t i = 0; i < columns; ++i) offset[i] = bias[i] - gain[i] * static_cast<double>(base[i]);
  if (module.lora_bias != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<float> own, load_vector(tensors_, *module.lora_bias, storage_));
    const std::vector<double> picked = pick(own, runs);
    for (size_t i = 0; i < columns; ++i) offset[i] += gain[i] * static_cast<double>(slice.scale) * picked[i];
  }
  if (std::ranges::any_of(offset, [](double value) { return value != 0.0; })) slice.offset = vector_of(offset);
  return {};
}

/// Rounded to the storage type, as the base's vectors are.
Status LoraLayerBuilder::add_norm(const AdapterModule& module, LoraLayer& result) {
  if (module.weight == nullptr && module.bias == nullptr) return {};
  LoraNorm norm;
  for (const auto& [tensor, vector] : {std::pair(module.weight, &norm.weight), {module.bias, &norm.bias}}) {
    if (tensor == nullptr) continue;
    QUIRE_ASSIGN_OR_RETURN(const std::vector<float> values, load_vector(tensors_, *tensor, storage_));
    *vector = vector_of(std::vector<double>(values.begin(), values.end()));
  }
  result.norm = std::move(norm);
  return {};
}

Status LoraLayerBuilder::add_embedding(const AdaptableLayer& layer, const AdapterModule& module, LoraLayer& result) {
  if (module.a == nullptr && module.weight == nullptr) return {};
  const std::vector<RowRun> runs = runs_of(layer.pieces, "");
  const int64_t vocabulary = count_of(runs);
  LoraSlice slice;
  slice.columns = layer.in_features;
  slice.scale = module.scale;
  if (module.weight != nullptr) {
    if (vocabulary == 0) return {};
    slice.weight = ops::make_packed_matrix(arena_, vocabulary, layer.in_features, storage_);
    ops::zero_padding(context_, *slice.weight);
    QUIRE_RETURN_IF_ERROR(pack(*module.weight, runs, 0, layer.input, *slice.weight));
    result.slices.push_back(std::move(slice));
    return {};
  }
  slice.rank = module.rank;
  std::vector<double> squares(module.magnitude == nullptr ? 0 : static_cast<size_t>(slice.columns));
  if (vocabulary > 0) {
    QUIRE_RETURN_IF_ERROR(pack_lookup(module, runs.front(), result));
    slice.b = ops::make_packed_matrix(arena_, slice.columns, slice.rank, storage_);
    const RowRun rows{0, 0, slice.columns};
    QUIRE_RETURN_IF_ERROR(pack(*module.b, {&rows, 1}, 0, {0, slice.rank}, *slice.b));
    if (!squares.empty()) {
      squares = column_squares(context_, *layer.weight, {*result.a, 0, *slice.b, slice.scale});
    }
  }
  if (!squares.empty() && vocabulary == module.a->cols()) {
    QUIRE_RETURN_IF_ERROR(set_gain(module, roots_of(squares), slice));
  } else if (!squares.empty()) {
    wait_for_norms(layer, module, runs, result, slice, squares);
  }
  if (vocabulary > 0) result.slices.push_back(std::move(slice));
  return {};
}

Status LoraLayerBuilder::pack_lookup(const AdapterModule& module, const RowRun& tokens, LoraLayer& result) {
  const auto rank = static_cast<size_t>(module.rank);
  const auto count = static_cast<size_t>(tokens.count);
  std::vector<float> lookup(count * rank);
  QUIRE_ASSIGN_OR_RETURN(const std::vector<float> a, values_of(*module.a));
  for (size_t j = 0; j < rank; ++j) {
    const float* const values = a.data() + j * static_cast<size_t>(module.a->cols()) + tokens.source;
    for (size_t token = 0; token < count; ++token) lookup[token * rank + j] = values[token];
  }
  result.a = ops::make_packed_matrix(arena_, tokens.count, module.rank, storage_);
  ops::zero_padding(context_, *result.a);
  ops::pack_rows(context_, {lookup.data(), DType::kFloat32, tokens.count, module.rank, module.rank}, 0, 0, *result.a);
  return {};
}

Status LoraLayerBuilder::set_gain(const AdapterModule& module, std::span<const double> norms, LoraSlice& slice) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<float> magnitudes, values_of(*module.magnitude));
  std::vector<double> gain(magnitudes.begin(), magnitudes.end());
  for (size_t i = 0; i < gain.size(); ++i) gain[i] /= norms[i];
  slice.gain = vector_of(gain);
  return {};
}

// Tokens, like all ids that the layer sees, count from the first that this rank holds.
Status LoraLayerBuilder::add_tokens(const AdaptableLayer& layer, const AdapterModule& module, LoraLayer& result) {
  if (module.token_rows == nullptr) return {};
  const Range local = layer.pieces.front().local;
  std::vector<int64_t> order;
  for (size_t i = 0; i < module.token_ids.size(); ++i) {
    if (module.token_ids[i] >= local.begin && module.token_ids[i] < local.end) order.push_back(static_cast<int64_t>(i));
  }
  if (order.empty()) return {};
  std::ranges::sort(order, {}, [&](int64_t i) { return module.token_ids[static_cast<size_t>(i)]; });
  const auto count = static_cast<int64_t>(order.size());
  const int64_t hidden = module.token_rows->cols();
  LoraTokens tokens{
      Tensor::view(arena_.allocate(order.size() * sizeof(int32_t)), 1, count, DType::kInt32, context_.device),
      ops::make_packed_matrix(arena_, count, hidden, storage_)};
  ops::zero_padding(context_, tokens.rows);
  std::vector<int32_t> ids;
  for (size_t i = 0; i < order.size(); ++i) {
    ids.push_back(static_cast<int32_t>(module.token_ids[static_cast<size_t>(order[i])] - local.begin));
    const RowRun run{order[i], static_cast<int64_t>(i), 1};
    QUIRE_RETURN_IF_ERROR(pack(*module.token_rows, {&run, 1}, 0, {0, hidden}, tokens.rows));
  }
  ops::copy_from_host(context_, std::span<const int32_t>(ids), tokens.ids);
  result.tokens = std::move(tokens);
  return {};
}

}  // namespace quire

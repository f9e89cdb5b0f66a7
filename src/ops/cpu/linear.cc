// How a linear is cut into tasks. No cut changes a result: each output is one chain of additions (kernels/linear.cc).
#include "ops/cpu/linear.h"

#include <algorithm>
#include <cstring>

#include "base/cpu_topology.h"
#include "ops/cpu/grouped_linear.h"
#include "ops/cpu/kernel_table.h"
#include "ops/cpu/linear_additions.h"
#include "ops/cpu/parallel.h"

namespace quire::ops::cpu {
namespace {

static_assert(kPanelChannels == PackedMatrix::kPanelWidth);

/// Tasks for each worker, so that one that was interrupted holds up the others little.
constexpr int64_t kTasksPerWorker = 8;
/// Least weights of a streaming task, to keep what a task costs beside its reading small.
constexpr int64_t kLeastStreamedBytes = 32 << 10;
/// Most memory for the copy of the rows that the tiled kernel reads.
constexpr int64_t kMostTileBytes = 16 << 20;

std::byte* panel_at(const PackedMatrix& matrix, int64_t panel, int64_t feature) {
  const int64_t element = (panel * matrix.in_features + feature) * kPanelChannels;
  return static_cast<std::byte*>(matrix.panels.raw()) + element * static_cast<int64_t>(dtype_size(matrix.dtype));
}

/// A run of rows of a linear, and what is added to its output.
struct LinearRun {
  const LinearKernels& kernels;
  LinearCall call;
  int64_t first_row;
  const LinearAdditions& additions;
};

void stream_panels(OpContext& context, const LinearRun& run, const LinearCall& call, const PackedMatrix& weight) {
  const LinearKernels& kernels = run.kernels;
  const int64_t panels = weight.panel_count();
  const int64_t panel_bytes = weight.in_features * kPanelChannels * static_cast<int64_t>(dtype_size(weight.dtype));
  const int64_t workers = context.pool->size();
  int64_t size =
      workers == 1 ? panels : std::max(panels / (workers * kTasksPerWorker), kLeastStreamedBytes / panel_bytes);
  size = std::max<int64_t>(size / kernels.streaming_panels, 1) * kernels.streaming_panels;
  context.pool->parallel_for(divide_up(panels, size), [&](int64_t task, int worker) {
    const int64_t first = task * size;
    const int64_t last = std::min(panels, first + size);
    kernels.multiply_streaming(call, first, last);
    run.additions.add(run.first_row, run.first_row + call.rows, first, last, worker);
  });
}

/// Few rows.
void multiply_streaming(OpContext& context, const LinearRun& run, const PackedMatrix& weight) {
  const LinearCall& call = run.call;
  if (run.kernels.prepare_row == nullptr) return stream_panels(context, run, call, weight);
  const Workspace::Scope scope(*context.workspace);
  const Tensor prepared = context.workspace->tensor(1, call.rows * call.in_features);
  stream_panels(context, run, with_prepared_rows(run.kernels, call, prepared.data<float>()), weight);
}

/// How many tiles of rows and how many panels a task takes.
struct Cut {
  int64_t tiles;
  int64_t panels;
};

/// A block of features of a task's rows fills half of the L2 cache, its waiting sums a quarter; tasks get smaller where
/// there would be too few.
Cut choose_cut(const LinearKernels& kernels, int64_t tiles, int64_t panels, int64_t workers) {
  static const int64_t l2 = static_cast<int64_t>(cache_sizes().l2);
  const int64_t tile_bytes = kernels.tile_rows * kBlockFeatures * static_cast<int64_t>(sizeof(float));
  const int64_t row_blocks = divide_up(tiles, std::max<int64_t>(l2 / 2 / tile_bytes, 1));
  Cut cut;
  cut.tiles = divide_up(tiles, row_blocks);
  const int64_t sums_bytes = cut.tiles * kernels.tile_rows * kPanelChannels * static_cast<int64_t>(sizeof(float));
  const int64_t fitting = std::max<int64_t>(l2 / 4 / sums_bytes, 1);
  const int64_t wanted = workers == 1 ? panels : panels * row_blocks / (workers * kTasksPerWorker);
  cut.panels = std::clamp<int64_t>(wanted, 1, std::min(fitting, panels));
  cut.panels = divide_up(cut.panels, kernels.tile_panels) * kernels.tile_panels;
  return cut;
}

/// Copies rows into tiles: a tile's part of a block of features lies together, so that neither stride nor size of a row
/// can make its lines compete for the same places of a cache.
void copy_tile(const LinearKernels& kernels, const LinearCall& call, int64_t tiles, int64_t tile, float* x_tiles) {
  const int64_t tile_rows = kernels.tile_rows;
  const int64_t first = tile_begin(call.rows, tiles, tile);
  const int64_t rows = tile_begin(call.rows, tiles, tile + 1) - first;
  for (int64_t k = 0; k < call.in_features; k += kBlockFeatures) {
    const int64_t features = std::min(kBlockFeatures, call.in_features - k);
    float* const target = x_tiles + (k * tiles + tile * kBlockFeatures) * tile_rows;
    for (int64_t r = 0; r < rows; ++r) {
      const float* const row = call.x + (first + r) * call.x_stride;
      if (kernels.prepare_row != nullptr) {
        kernels.prepare_row(row + 2 * k, 2 * features, target + r * kBlockFeatures);
      } else {
        std::memcpy(target + r * kBlockFeatures, row + k, static_cast<size_t>(features) * sizeof(float));
      }
    }
  }
}

void multiply_tiles(OpContext& context, const LinearRun& run, int64_t panels) {
  const LinearKernels& kernels = run.kernels;
  const LinearCall& call = run.call;
  const Workspace::Scope scope(*context.workspace);
  const int64_t workers = context.pool->size();
  const int64_t tiles = divide_up(call.rows, kernels.tile_rows);
  const int64_t blocks = divide_up(call.in_features, kBlockFeatures);
  const Cut cut = choose_cut(kernels, tiles, panels, workers);
  const Tensor x_tiles = context.workspace->tensor(blocks * tiles, kernels.tile_rows * kBlockFeatures);
  const Tensor scratch = context.workspace->tensor(
      workers, tiled_scratch_floats(cut.tiles * kernels.tile_rows, cut.panels, kernels.tile_panels));
  context.pool->parallel_for(tiles,
                             [&](int64_t tile, int) { copy_tile(kernels, call, tiles, tile, x_tiles.data<float>()); });
  const int64_t panel_tasks = divide_up(panels, cut.panels);
  context.pool->parallel_for(divide_up(tiles, cut.tiles) * panel_tasks, [&](int64_t index, int worker) {
    LinearTiles task;
    task.x_tiles = x_tiles.data<float>();
    task.tile_count = tiles;
    task.first_tile = index / panel_tasks * cut.tiles;
    task.last_tile = std::min(tiles, task.first_tile + cut.tiles);
    task.first_panel = index % panel_tasks * cut.panels;
    task.last_panel = std::min(panels, task.first_panel + cut.panels);
    task.scratch = scratch.row<float>(worker);
    kernels.multiply_tiles(call, task);
    run.additions.add(run.first_row + tile_begin(call.rows, tiles, task.first_tile),
                      run.first_row + tile_begin(call.rows, tiles, task.last_tile), task.first_panel, task.last_panel,
                      worker);
  });
}

}  // namespace

Storage storage_of(DType dtype) {
  if (dtype == DType::kBFloat16) return Storage::kBFloat16;
  return dtype == DType::kFloat16 ? Storage::kFloat16 : Storage::kFloat32;
}

const LinearKernels& linear_kernels_of(const PackedMatrix& weight) {
  // An odd number of features has no last pair: such a matrix is widened.
  const LinearKernels* const pairs = cpu::kernels().bf16_pairs;
  const bool use_pairs = pairs != nullptr && weight.dtype == DType::kBFloat16 && weight.in_features % 2 == 0;
  return use_pairs ? *pairs : *cpu::kernels().linear;
}

int64_t features_of(const PackedMatrix& weight, const LinearKernels& kernels) {
  return kernels.prepare_row == nullptr ? weight.in_features : weight.in_features / 2;
}

LinearCall with_prepared_rows(const LinearKernels& kernels, const LinearCall& call, float* prepared) {
  if (kernels.prepare_row == nullptr) return call;
  LinearCall result = call;
  result.x = prepared;
  result.x_stride = call.in_features;
  for (int64_t r = 0; r < call.rows; ++r) {
    kernels.prepare_row(call.x + r * call.x_stride, 2 * call.in_features, prepared + r * call.in_features);
  }
  return result;
}

void linear(OpContext& context, const Tensor& x, const PackedMatrix& weight, const Tensor& bias, Tensor& out,
            std::span<const LinearPart> parts) {
  const Workspace::Scope scope(*context.workspace);
  const bool fit = std::ranges::all_of(parts, [&](const LinearPart& part) { return LinearAdditions::fits(part, out); });
  const LinearAdditions additions(context, fit ? parts : std::span<const LinearPart>(), out);
  const LinearKernels& kernels = linear_kernels_of(weight);
  LinearRun run{kernels, {}, 0, additions};
  LinearCall& call = run.call;
  call.x_stride = x.row_stride();
  call.panels = weight.panels.raw();
  call.storage = storage_of(weight.dtype);
  call.in_features = features_of(weight, kernels);
  call.out_features = weight.out_features;
  call.bias = bias.defined() ? bias.data<float>() : nullptr;
  call.out_stride = out.row_stride();
  const int64_t row_bytes = weight.in_features * static_cast<int64_t>(sizeof(float));
  const int64_t most_rows = std::max(kMostTileBytes / row_bytes / kernels.tile_rows, int64_t{1}) * kernels.tile_rows;
  for (; run.first_row < x.rows(); run.first_row += call.rows) {
    call.rows = std::min(most_rows, x.rows() - run.first_row);
    call.x = x.row<float>(run.first_row);
    call.out = out.row<float>(run.first_row);
    if (call.rows <= kernels.streaming_rows) {
      multiply_streaming(context, run, weight);
    } else {
      multiply_tiles(context, run, weight.panel_count());
    }
  }
  if (!fit) cpu::grouped_linear(context, parts);
}

void pack_rows(OpContext& context, const MatrixView& source, int64_t first_row, int64_t first_col,
               PackedMatrix& matrix) {
  const LinearKernels& kernels = *cpu::kernels().linear;
  const int64_t end_row = first_row + source.rows;
  const int64_t first_panel = first_row / kPanelChannels;
  const auto pack = [&](int64_t task, int) {
    const int64_t panel = first_panel + task;
    const int64_t first = std::max(first_row, panel * kPanelChannels);
    PackCall call;
    call.source = static_cast<const std::byte*>(source.data) +
                  (first - first_row) * source.row_stride * static_cast<int64_t>(dtype_size(source.dtype));
    call.source_storage = storage_of(source.dtype);
    call.source_stride = source.row_stride;
    call.features = source.cols;
    call.panel = panel_at(matrix, panel, first_col);
    call.storage = storage_of(matrix.dtype);
    call.first_lane = first - panel * kPanelChannels;
    call.lanes = std::min(end_row, (panel + 1) * kPanelChannels) - first;
    kernels.pack_panel(call);
  };
  context.pool->parallel_for(divide_up(end_row, kPanelChannels) - first_panel, pack);
  if (end_row == matrix.out_features) zero_padding(matrix, first_col, first_col + source.cols);
}

void zero_padding(PackedMatrix& matrix, int64_t first_col, int64_t last_col) {
  const int64_t used = matrix.out_features % kPanelChannels;
  if (used == 0) return;
  const size_t size = dtype_size(matrix.dtype);
  for (int64_t k = first_col; k < last_col; ++k) {
    std::byte* const lanes = panel_at(matrix, matrix.panel_count() - 1, k);
    std::memset(lanes + static_cast<size_t>(used) * size, 0, static_cast<size_t>(kPanelChannels - used) * size);
  }
}

void gather_row(const PackedMatrix& table, int64_t channel, float* out) {
  cpu::kernels().linear->gather_channel(panel_at(table, channel / kPanelChannels, 0), storage_of(table.dtype),
                                        table.in_features, channel % kPanelChannels, out);
}

void gather_rows(OpContext& context, const PackedMatrix& table, const Tensor& ids, Tensor& out) {
  context.pool->parallel_for(ids.cols(), [&](int64_t i, int) {
    const int64_t id = ids.data<int32_t>()[i];
    float* const row = out.row<float>(i);
    if (id < 0 || id >= table.out_features) {
      std::fill_n(row, table.in_features, 0.0f);
      return;
    }
    gather_row(table, id, row);
  });
}

}  // namespace quire::ops::cpu

// How a compressed linear is cut into tasks. No cut changes a result: a row's bytes depend on that row alone, and each
// output is one chain of additions (kernels/quantized.cc).
#include "ops/cpu/quantized_linear.h"

#include <algorithm>

#include "base/cpu_topology.h"
#include "ops/cpu/grouped_linear.h"
#include "ops/cpu/kernel_table.h"
#include "ops/cpu/kernels/quantized.h"
#include "ops/cpu/linear_additions.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/workspace_span.h"

namespace quire::ops::cpu {
namespace {

/// Tasks for each worker, so that one that was interrupted holds up the others little.
constexpr int64_t kQuantizedTasksPerWorker = 8;
/// Least weights of a task with few rows, to keep what a task costs beside its reading small.
constexpr int64_t kLeastTaskBytes = 32 << 10;
/// Most memory for the rows as bytes.
constexpr int64_t kMostQuantizedTileBytes = 16 << 20;

/// The panels of one part, cut into tasks.
struct PartTasks {
  QuantizedCall call;
  int64_t panels;
  int64_t panels_per_task;
  int64_t first_task;
  int64_t first_panel;  ///< of the output
};

/// Rows that are computed together: `call.rows` of `out` from `first_row` on.
struct Run {
  int64_t first_row;
  int64_t rows;
  int64_t tiles;
  int64_t tile_stride;
  const uint8_t* bytes;
};

class QuantizedProduct {
 public:
  QuantizedProduct(OpContext& context, const Tensor& x, std::span<const QuantizedPart> parts, const Tensor& bias,
                   Tensor& out, const LinearAdditions& additions)
      : context_(context),
        kernels_(*kernels().quantized),
        x_(x),
        parts_(parts),
        bias_(bias),
        out_(out),
        additions_(additions),
        group_scales_(scales_groups(parts[0].matrix->format)) {}

  void run() {
    const int64_t row_bytes = quant_tile_bytes(group_scales_, 1, x_.cols());
    const int64_t most_rows =
        std::max(kMostQuantizedTileBytes / row_bytes / kernels_.tile_rows, int64_t{1}) * kernels_.tile_rows;
    for (int64_t first = 0; first < x_.rows(); first += most_rows) {
      const Workspace::Scope scope(*context_.workspace);
      Run run{};
      run.first_row = first;
      run.rows = std::min(most_rows, x_.rows() - first);
      run.tiles = divide_up(run.rows, kernels_.tile_rows);
      run.tile_stride = quant_tile_bytes(group_scales_, divide_up(run.rows, run.tiles), x_.cols());
      run.tile_stride = divide_up(run.tile_stride, 64) * 64;
      auto* const bytes =
          static_cast<uint8_t*>(context_.workspace->allocate(static_cast<size_t>(run.tile_stride * run.tiles)));
      run.bytes = bytes;
      for_tasks(context_, run.tiles, [&](int64_t tile, int) {
        const int64_t row = tile_begin(run.rows, run.tiles, tile);
        kernels_.quantize_tile(x_.row<float>(first + row), x_.row_stride(),
                               tile_begin(run.rows, run.tiles, tile + 1) - row, x_.cols(), group_scales_,
                               bytes + tile * run.tile_stride);
      });
      multiply(run);
    }
  }

 private:
  /// Tiles of rows that a task takes: as many as fill half of the L2 cache.
  int64_t tiles_per_task(const Run& run) const {
    static const int64_t l2 = static_cast<int64_t>(cache_sizes().l2);
    const int64_t blocks = divide_up(run.tiles, std::max<int64_t>(l2 / 2 / run.tile_stride, 1));
    return divide_up(run.tiles, blocks);
  }

  void multiply(const Run& run) {
    const int64_t tiles = tiles_per_task(run);
    const int64_t row_tasks = divide_up(run.tiles, tiles);
    const int64_t workers = context_.pool->size();
    const std::span<PartTasks> plans = workspace_span<PartTasks>(*context_.workspace, std::ssize(parts_));
    int64_t panels = 0;
    for (const QuantizedPart& part : parts_) panels += part.matrix->panel_count();
    int64_t panel_tasks = 0;
    for (size_t i = 0; i < parts_.size(); ++i) {
      PartTasks& plan = plans[i];
      plan = plan_of(parts_[i], run);
      const int64_t panel_bytes = quant_panel_bytes(plan.call.format, plan.call.in_features);
      plan.panels_per_task = workers == 1 ? plan.panels : panels * row_tasks / (workers * kQuantizedTasksPerWorker);
      if (run.tiles == 1) plan.panels_per_task = std::max(plan.panels_per_task, kLeastTaskBytes / panel_bytes);
      plan.panels_per_task = std::clamp<int64_t>(plan.panels_per_task, 1, plan.panels);
      plan.first_task = panel_tasks;
      panel_tasks += divide_up(plan.panels, plan.panels_per_task);
    }
    for_tasks(context_, row_tasks * panel_tasks, [&](int64_t task, int worker) {
      const int64_t first_tile = task / panel_tasks * tiles;
      const int64_t last_tile = std::min(run.tiles, first_tile + tiles);
      const auto after = std::ranges::upper_bound(plans, task % panel_tasks, {}, &PartTasks::first_task);
      const PartTasks& plan = *(after - 1);
      const int64_t first = (task % panel_tasks - plan.first_task) * plan.panels_per_task;
      const int64_t last = std::min(plan.panels, first + plan.panels_per_task);
      kernels_.multiply(plan.call, first_tile, last_tile, first, last);
      additions_.add(run.first_row + tile_begin(run.rows, run.tiles, first_tile),
                     run.first_row + tile_begin(run.rows, run.tiles, last_tile), plan.first_panel + first,
                     plan.first_panel + last, worker);
    });
  }

  PartTasks plan_of(const QuantizedPart& part, const Run& run) const {
    PartTasks plan{};
    plan.panels = part.matrix->panel_count();
    plan.first_panel = part.first_column / kPanelChannels;
    plan.call.format = part.matrix->format;
    plan.call.panels = part.matrix->panels.data<uint8_t>();
    plan.call.in_features = part.matrix->in_features;
    plan.call.out_features = part.matrix->out_features;
    plan.call.tiles = run.bytes;
    plan.call.tile_stride = run.tile_stride;
    plan.call.tile_count = run.tiles;
    plan.call.rows = run.rows;
    plan.call.bias = bias_.defined() ? bias_.data<float>() + part.first_column : nullptr;
    plan.call.out = out_.row<float>(run.first_row) + part.first_column;
    plan.call.out_stride = out_.row_stride();
    return plan;
  }

  OpContext& context_;
  const QuantizedKernels& kernels_;
  const Tensor& x_;
  std::span<const QuantizedPart> parts_;
  const Tensor& bias_;
  Tensor& out_;
  const LinearAdditions& additions_;
  bool group_scales_;
};

}  // namespace

void quantized_linear(OpContext& context, const Tensor& x, std::span<const QuantizedPart> parts, const Tensor& bias,
                      Tensor& out, std::span<const LinearPart> additions) {
  const Workspace::Scope scope(*context.workspace);
  // Additions are made panel by panel where panels of the output are panels of the parts, and cover it.
  int64_t columns = 0;
  bool fit = true;
  for (const QuantizedPart& part : parts) {
    fit = fit && part.first_column % kPanelChannels == 0;
    columns += part.matrix->out_features;
  }
  fit = fit && columns == out.cols() &&
        std::ranges::all_of(additions, [&](const LinearPart& part) { return LinearAdditions::fits(part, out); });
  const LinearAdditions within(context, fit ? additions : std::span<const LinearPart>(), out);
  QuantizedProduct(context, x, parts, bias, out, within).run();
  if (!fit) cpu::grouped_linear(context, additions);
}

void gather_channels(OpContext& context, std::span<const QuantizedPart> parts, const Tensor& ids, Tensor& out) {
  for_tasks(context, ids.cols(), [&](int64_t i, int) {
    std::fill_n(out.row<float>(i), out.cols(), 0.0f);
    for (const QuantizedPart& part : parts) {
      const int64_t channel = ids.data<int32_t>()[i] - part.first_column;
      if (channel < 0 || channel >= part.matrix->out_features) continue;
      dequantize_channel(unpack_channel(*part.matrix, channel), part.matrix->format, out.cols(), out.row<float>(i));
    }
  });
}

}  // namespace quire::ops::cpu

// How a group of products is cut into tasks of one parallel loop: parts by rows and by panels, until a task is about as
// much work as another. No cut changes a result: each output is one chain of additions (kernels/linear.cc).
#include "ops/cpu/grouped_linear.h"

#include <algorithm>

#include "ops/cpu/kernel_table.h"
#include "ops/cpu/kernels/linear.h"
#include "ops/cpu/linear.h"
#include "ops/cpu/parallel.h"

namespace quire::ops::cpu {
namespace {

/// Tasks for each worker, so that one that was interrupted holds up the others little.
constexpr int64_t kTasksPerWorker = 4;
/// Least multiplications of a task: what waking a worker costs.
constexpr int64_t kLeastWork = 64 << 10;
/// Multiplications that reading an output, finishing and writing it are worth.
constexpr int64_t kFinishWork = 16;

constexpr int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// One part and its tasks: `row_tasks` times `panel_tasks`, numbered from `first_task` on.
struct PartPlan {
  LinearCall call;
  const LinearKernels* kernels;
  int64_t panels;
  int64_t row_blocks;  ///< the kernel takes this many runs of rows, of nearly equal sizes
  int64_t row_tasks;
  int64_t panel_tasks;
  int64_t first_task;
};

/// The call and its kernels; the cut is still to be chosen.
PartPlan plan_of(const LinearPart& part) {
  PartPlan plan{};
  LinearCall& call = plan.call;
  call.rows = part.out.rows();
  call.out_features = part.out.cols();
  call.out = part.out.data<float>();
  call.out_stride = part.out.row_stride();
  call.accumulate = part.accumulate;
  call.scale = part.scale;
  call.gain = part.gain.defined() ? part.gain.data<float>() : nullptr;
  call.bias = part.bias.defined() ? part.bias.data<float>() : nullptr;
  if (part.weight == nullptr) {
    // There are no features and nothing is read: any address does.
    plan.kernels = kernels().linear;
    call.panels = part.out.raw();
    call.storage = Storage::kFloat32;
    call.x = call.out;
    call.x_stride = call.out_stride;
    return plan;
  }
  plan.kernels = &linear_kernels_of(*part.weight);
  call.panels = part.weight->panels.raw();
  call.storage = storage_of(part.weight->dtype);
  call.in_features = features_of(*part.weight, *plan.kernels);
  call.x = part.x.data<float>();
  call.x_stride = part.x.row_stride();
  return plan;
}

int64_t work_per_row(const LinearCall& call) {
  return divide_up(call.out_features, kPanelChannels) * kPanelChannels * (call.in_features + kFinishWork);
}

void plan_tasks(PartPlan& plan, int64_t wanted) {
  const LinearKernels& kernels = *plan.kernels;
  plan.panels = divide_up(plan.call.out_features, kPanelChannels);
  plan.row_blocks = divide_up(plan.call.rows, kernels.streaming_rows);
  const int64_t work = work_per_row(plan.call) * plan.call.rows;
  const int64_t tasks = std::max<int64_t>(work / wanted, 1);
  plan.row_tasks = std::min(plan.row_blocks, tasks);
  plan.panel_tasks = std::min(divide_up(tasks, plan.row_tasks), divide_up(plan.panels, kernels.streaming_panels));
}

/// Rounds the call's rows where its kernels want them so; `prepared` has room for them.
void prepare_rows(const LinearKernels& kernels, LinearCall& call, float* prepared) {
  if (kernels.prepare_row == nullptr) return;
  for (int64_t r = 0; r < call.rows; ++r) {
    kernels.prepare_row(call.x + r * call.x_stride, 2 * call.in_features, prepared + r * call.in_features);
  }
  call.x = prepared;
  call.x_stride = call.in_features;
}

void run_task(const PartPlan& plan, int64_t task, float* prepared) {
  const int64_t row_task = task / plan.panel_tasks;
  const int64_t panel_task = task % plan.panel_tasks;
  const int64_t first_panel = tile_begin(plan.panels, plan.panel_tasks, panel_task);
  const int64_t last_panel = tile_begin(plan.panels, plan.panel_tasks, panel_task + 1);
  const int64_t last_block = tile_begin(plan.row_blocks, plan.row_tasks, row_task + 1);
  for (int64_t block = tile_begin(plan.row_blocks, plan.row_tasks, row_task); block < last_block; ++block) {
    const int64_t row = tile_begin(plan.call.rows, plan.row_blocks, block);
    LinearCall call = plan.call;
    call.rows = tile_begin(plan.call.rows, plan.row_blocks, block + 1) - row;
    call.x += row * call.x_stride;
    call.out += row * call.out_stride;
    prepare_rows(*plan.kernels, call, prepared);
    plan.kernels->multiply_streaming(call, first_panel, last_panel);
  }
}

/// Floats for the rows of any one block of any part.
int64_t prepared_floats(std::span<const PartPlan> plans) {
  int64_t floats = 1;
  for (const PartPlan& plan : plans) {
    if (plan.kernels->prepare_row == nullptr) continue;
    floats = std::max(floats, std::min(plan.call.rows, plan.kernels->streaming_rows) * plan.call.in_features);
  }
  return floats;
}

}  // namespace

void grouped_linear(OpContext& context, std::span<const LinearPart> parts) {
  const Workspace::Scope scope(*context.workspace);
  auto* const memory = static_cast<PartPlan*>(context.workspace->allocate(parts.size() * sizeof(PartPlan)));
  const std::span<PartPlan> plans(memory, parts.size());
  int64_t work = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    plans[i] = plan_of(parts[i]);
    work += work_per_row(plans[i].call) * plans[i].call.rows;
  }
  const int64_t wanted = std::max(work / (context.pool->size() * kTasksPerWorker), kLeastWork);
  int64_t tasks = 0;
  for (PartPlan& plan : plans) {
    plan_tasks(plan, wanted);
    plan.first_task = tasks;
    tasks += plan.row_tasks * plan.panel_tasks;
  }
  const Tensor prepared = context.workspace->tensor(context.pool->size(), prepared_floats(plans));
  for_tasks(context, tasks, [&](int64_t task, int worker) {
    const auto after = std::ranges::upper_bound(plans, task, {}, &PartPlan::first_task);
    const PartPlan& plan = *std::prev(after);
    run_task(plan, task - plan.first_task, prepared.row<float>(worker));
  });
}

}  // namespace quire::ops::cpu

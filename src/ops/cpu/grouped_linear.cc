// How a group of products is cut into tasks of one parallel loop: parts by rows and by panels, until a task is about as
// much work as another. No cut changes a result: each output is one chain of additions (kernels/linear.cc).
#include "ops/cpu/grouped_linear.h"

#include <algorithm>

#include "ops/cpu/linear_part_call.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/workspace_span.h"

namespace quire::ops::cpu {
namespace {

/// Tasks for each worker, so that one that was interrupted holds up the others little.
constexpr int64_t kGroupTasksPerWorker = 4;
/// Least multiplications of a task: what waking a worker costs.
constexpr int64_t kLeastWork = 64 << 10;
/// Multiplications that reading an output, finishing and writing it are worth.
constexpr int64_t kFinishWork = 16;

/// A part's tasks: `row_tasks` times `panel_tasks`, numbered from `first_task` on.
struct PartPlan {
  int64_t row_tasks;
  int64_t panel_tasks;
  int64_t first_task;
};

int64_t work_of(const LinearPartCall& part) {
  return part.panels() * kPanelChannels * (part.call.in_features + kFinishWork) * part.call.rows;
}

PartPlan plan_tasks(const LinearPartCall& part, int64_t wanted) {
  const int64_t tasks = std::max<int64_t>(work_of(part) / wanted, 1);
  PartPlan plan{};
  plan.row_tasks = std::min(part.row_blocks(part.call.rows), tasks);
  plan.panel_tasks =
      std::min(divide_up(tasks, plan.row_tasks), divide_up(part.panels(), part.kernels->streaming_panels));
  return plan;
}

void run_task(const LinearPartCall& part, const PartPlan& plan, int64_t task, float* prepared) {
  const int64_t row_task = task / plan.panel_tasks;
  const int64_t panel_task = task % plan.panel_tasks;
  const int64_t first_panel = tile_begin(part.panels(), plan.panel_tasks, panel_task);
  const int64_t last_panel = tile_begin(part.panels(), plan.panel_tasks, panel_task + 1);
  const int64_t blocks = part.row_blocks(part.call.rows);
  const int64_t last_block = tile_begin(blocks, plan.row_tasks, row_task + 1);
  for (int64_t block = tile_begin(blocks, plan.row_tasks, row_task); block < last_block; ++block) {
    part.run(tile_begin(part.call.rows, blocks, block), tile_begin(part.call.rows, blocks, block + 1), first_panel,
             last_panel, prepared);
  }
}

}  // namespace

void grouped_linear(OpContext& context, std::span<const LinearPart> parts) {
  const Workspace::Scope scope(*context.workspace);
  const std::span<LinearPartCall> calls = workspace_span<LinearPartCall>(*context.workspace, std::ssize(parts));
  const std::span<PartPlan> plans = workspace_span<PartPlan>(*context.workspace, std::ssize(parts));
  int64_t work = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    calls[i] = call_of(parts[i]);
    work += work_of(calls[i]);
  }
  const int64_t wanted = std::max(work / (context.pool->size() * kGroupTasksPerWorker), kLeastWork);
  int64_t tasks = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    plans[i] = plan_tasks(calls[i], wanted);
    plans[i].first_task = tasks;
    tasks += plans[i].row_tasks * plans[i].panel_tasks;
  }
  const Tensor prepared = context.workspace->tensor(context.pool->size(), prepared_floats(calls));
  for_tasks(context, tasks, [&](int64_t task, int worker) {
    const auto after = std::ranges::upper_bound(plans, task, {}, &PartPlan::first_task);
    const auto index = static_cast<size_t>(after - plans.begin() - 1);
    run_task(calls[index], plans[index], task - plans[index].first_task, prepared.row<float>(worker));
  });
}

}  // namespace quire::ops::cpu

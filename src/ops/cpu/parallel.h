// Loops over rows and tasks that are worth a fork only when there is enough to do.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tensor/op_context.h"

namespace quire::ops::cpu {

/// a / b, rounded up.
constexpr int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Calls fn(task, worker) for each task; on the calling thread alone where there is no pool, or one task.
template <typename Function>
void for_tasks(const OpContext& context, int64_t tasks, Function&& fn) {
  if (context.pool != nullptr && context.pool->size() > 1 && tasks > 1) {
    context.pool->parallel_for(tasks, fn);
    return;
  }
  for (int64_t task = 0; task < tasks; ++task) fn(task, 0);
}

/// Calls fn(row) for each row, many rows a task: waking other workers costs about as much as kElementsPerTask elements.
template <typename Function>
void for_rows(const OpContext& context, int64_t rows, int64_t elements_per_row, Function&& fn) {
  constexpr int64_t kElementsPerTask = 16384;
  const int64_t chunk = std::max<int64_t>(1, kElementsPerTask / std::max<int64_t>(1, elements_per_row));
  for_tasks(context, divide_up(rows, chunk), [&](int64_t task, int) {
    const int64_t end = std::min(rows, (task + 1) * chunk);
    for (int64_t row = task * chunk; row < end; ++row) fn(row);
  });
}

}  // namespace quire::ops::cpu

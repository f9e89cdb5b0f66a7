#include "ops/cpu/attention_plan.h"

#include <algorithm>

#include "ops/cpu/kernels/attention.h"
#include "ops/cpu/workspace_span.h"

namespace quire::ops::cpu {

namespace {

// Enough rows to pay for widening a tile, few enough for their state to stay in the second-level cache.
constexpr int64_t kMostUnitRows = 128;
constexpr int64_t kFewestUnitRows = 32;
// Tasks per worker that even out their differences.
constexpr int64_t kUnitsPerWorker = 4;
// States of split units may take this much.
constexpr int64_t kMostStateFloats = int64_t{16} << 20;
// Reading a position's key and value costs about as much as multiplying them with this many rows.
constexpr int64_t kRowsPerRead = 8;

std::span<HeadGroup> group_heads(Workspace& workspace, const AttentionParams& params, int64_t kv_heads) {
  const std::span<HeadGroup> groups = workspace_span<HeadGroup>(workspace, params.query_heads);
  int64_t count = 0;
  for (int64_t head = 0; head < params.query_heads; ++head) {
    const int64_t kv_head =
        params.kv_head_of_query.empty() ? head / (params.query_heads / kv_heads) : params.kv_head_of_query[head];
    if (count == 0 || groups[count - 1].kv_head != kv_head) groups[count++] = {kv_head, head, 0};
    ++groups[count - 1].heads;
  }
  return groups.first(static_cast<size_t>(count));
}

int64_t tokens_per_unit(const HeadGroup& group, int64_t unit_rows) {
  return std::max<int64_t>(1, unit_rows / group.heads);
}

int64_t count_units(std::span<const AttentionSequence> sequences, std::span<const HeadGroup> groups,
                    int64_t unit_rows) {
  int64_t count = 0;
  for (const AttentionSequence& sequence : sequences) {
    for (const HeadGroup& group : groups) {
      const int64_t tokens = tokens_per_unit(group, unit_rows);
      count += (sequence.query_count + tokens - 1) / tokens;
    }
  }
  return count;
}

AttentionUnit make_unit(const AttentionSequence& sequence, int64_t index, const HeadGroup& group, int64_t first_token,
                        int64_t tokens, int64_t window) {
  AttentionUnit unit{};
  unit.sequence = index;
  unit.group = group;
  unit.first_token = first_token;
  unit.tokens = tokens;
  unit.first_position = sequence.seq_len - sequence.query_count + first_token;
  const int64_t end = unit.first_position + tokens;
  const int64_t first_seen = window > 0 ? std::max<int64_t>(0, unit.first_position - window + 1) : 0;
  unit.first_segment = first_seen / kSegmentPositions;
  unit.segments = (end - 1) / kSegmentPositions - unit.first_segment + 1;
  unit.work = (end - first_seen) * (unit.rows() + kRowsPerRead);
  unit.first_state = -1;
  return unit;
}

void make_units(std::span<const AttentionSequence> sequences, std::span<const HeadGroup> groups, int64_t unit_rows,
                int64_t window, AttentionPlan& plan) {
  size_t count = 0;
  for (size_t index = 0; index < sequences.size(); ++index) {
    const AttentionSequence& sequence = sequences[index];
    for (const HeadGroup& group : groups) {
      const int64_t step = tokens_per_unit(group, unit_rows);
      for (int64_t token = 0; token < sequence.query_count; token += step) {
        const int64_t tokens = std::min(step, sequence.query_count - token);
        plan.units[count] = make_unit(sequence, static_cast<int64_t>(index), group, token, tokens, window);
        plan.work += plan.units[count].work;
        plan.largest_unit = std::max(plan.largest_unit, plan.units[count].rows());
        ++count;
      }
    }
  }
}

/// Gives units that would keep one worker busy for too long a state for each segment.
int64_t split_units(int64_t v_dim, int workers, AttentionPlan& plan) {
  int64_t tasks = 0;
  for (AttentionUnit& unit : plan.units) {
    const int64_t floats = std::max(plan.state_floats, softmax_state_floats(unit.rows(), v_dim));
    const bool fits = floats * (plan.states + unit.segments) <= kMostStateFloats;
    if (workers == 1 || unit.segments == 1 || unit.work * workers * kUnitsPerWorker <= plan.work || !fits) {
      ++tasks;
      continue;
    }
    unit.first_state = plan.states;
    plan.state_floats = floats;
    plan.states += unit.segments;
    tasks += unit.segments;
  }
  return tasks;
}

}  // namespace

int64_t softmax_state_floats(int64_t rows, int64_t v_dim) { return rows * padded_dim(v_dim) + 2 * padded_dim(rows); }

AttentionPlan plan_attention(Workspace& workspace, const AttentionParams& params, const PagedKvLayer& cache,
                             std::span<const AttentionSequence> sequences, int workers) {
  const std::span<const HeadGroup> groups = group_heads(workspace, params, cache.kv_heads);
  int64_t unit_rows = kMostUnitRows;
  while (unit_rows > kFewestUnitRows && count_units(sequences, groups, unit_rows) < workers * kUnitsPerWorker) {
    unit_rows /= 2;
  }
  AttentionPlan plan;
  plan.units = workspace_span<AttentionUnit>(workspace, count_units(sequences, groups, unit_rows));
  make_units(sequences, groups, unit_rows, params.window, plan);
  plan.tasks = workspace_span<AttentionTask>(workspace, split_units(cache.v_dim, workers, plan));
  size_t count = 0;
  for (size_t index = 0; index < plan.units.size(); ++index) {
    const AttentionUnit& unit = plan.units[index];
    const bool split = unit.first_state >= 0;
    for (int64_t i = 0; i < (split ? unit.segments : 1); ++i) {
      plan.tasks[count++] = {split ? unit.work / unit.segments : unit.work, static_cast<int64_t>(index),
                             split ? unit.first_segment + i : -1};
    }
  }
  std::sort(plan.tasks.begin(), plan.tasks.end(),
            [](const AttentionTask& a, const AttentionTask& b) { return a.work > b.work; });
  return plan;
}

}  // namespace quire::ops::cpu

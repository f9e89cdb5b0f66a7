// How one step's attention is cut into units of rows and tasks for the workers. No choice made here changes a result.
#pragma once

#include <cstdint>
#include <span>

#include "ops/attention.h"

namespace quire::ops::cpu {

/// Query heads that read the same KV head.
struct HeadGroup {
  int64_t kv_head;
  int64_t first_head;
  int64_t heads;
};

/// Consecutive tokens of one sequence times the heads of one group.
struct AttentionUnit {
  int64_t sequence;
  HeadGroup group;
  int64_t first_token;  ///< counted from the sequence's first query row
  int64_t tokens;
  int64_t first_position;
  int64_t first_segment;  ///< segments that any of its rows sees
  int64_t segments;
  int64_t work;         ///< a measure of its cost
  int64_t first_state;  ///< index of its first segment's state when its segments are tasks of their own, else -1

  int64_t rows() const { return tokens * group.heads; }
};

/// A unit, or one segment of one.
struct AttentionTask {
  int64_t work;
  int64_t unit;
  int64_t segment;  ///< -1: all of the unit's segments
};

struct AttentionPlan {
  std::span<AttentionUnit> units;
  std::span<AttentionTask> tasks;  ///< the largest first
  int64_t largest_unit = 0;        ///< rows
  int64_t state_floats = 0;        ///< one segment's state of the largest unit that is split
  int64_t states = 0;              ///< states of all split units
  int64_t work = 0;
};

/// Floats that the softmax state of `rows` rows takes: maximum, sum and values.
int64_t softmax_state_floats(int64_t rows, int64_t v_dim);

/// Plans for `workers` workers; the spans lie in the workspace.
AttentionPlan plan_attention(Workspace& workspace, const AttentionParams& params, const PagedKvLayer& cache,
                             std::span<const AttentionSequence> sequences, int workers);

}  // namespace quire::ops::cpu

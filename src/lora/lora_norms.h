// DoRA's norms: what divides a magnitude, computed once at load from the base layer's own weights.
//
// Source: S. Liu et al., DoRA: Weight-Decomposed Low-Rank Adaptation (2024), section 4.1, as PEFT computes it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/linear.h"
#include "quantization/linear_method.h"

namespace quire {

/// Rows [first, first + count) of a base weight, in host memory.
std::vector<float> weight_rows(OpContext& context, const LinearWeight& weight, int64_t first, int64_t count);

/// A factor pair of one slice: A is rows [first_rank, first_rank + rank) of `a`.
struct LowRank {
  const ops::PackedMatrix& a;
  int64_t first_rank = 0;
  const ops::PackedMatrix& b;
  float scale = 1.0f;
};

/// ||W + scale * B A||² of each of B's rows; W is rows [first_row, first_row + B's rows) of `weight`. Where ranks hold
/// parts of the columns, theirs add up to the whole.
std::vector<double> row_squares(OpContext& context, const LinearWeight& weight, int64_t first_row,
                                const LowRank& delta);

/// ||W + scale * (B A)ᵀ||² of each column of an embedding W [vocabulary, hidden]; delta.a is [vocabulary, rank]. Only
/// as many rows of W count as delta.a has.
std::vector<double> column_squares(OpContext& context, const LinearWeight& weight, const LowRank& delta);

/// Square roots.
std::vector<double> roots_of(std::span<const double> squares);

}  // namespace quire

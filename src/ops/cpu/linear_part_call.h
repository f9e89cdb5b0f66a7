// One product of a group (ops/grouped_linear.h) as its kernels take it.
#pragma once

#include <span>

#include "ops/cpu/kernels/linear.h"
#include "ops/grouped_linear.h"

namespace quire::ops::cpu {

struct LinearPartCall {
  LinearCall call;
  const LinearKernels* kernels;

  int64_t panels() const { return (call.out_features + kPanelChannels - 1) / kPanelChannels; }
  /// Runs of rows, of nearly equal sizes, that the kernel takes for `rows` rows.
  int64_t row_blocks(int64_t rows) const { return (rows + kernels->streaming_rows - 1) / kernels->streaming_rows; }
  /// Rows [first_row, last_row), in one run of at most streaming_rows, with panels [first_panel, last_panel).
  /// `prepared` has room for prepared_floats().
  void run(int64_t first_row, int64_t last_row, int64_t first_panel, int64_t last_panel, float* prepared) const;
};

LinearPartCall call_of(const LinearPart& part);

/// Floats that any run of any of these needs for its rows, at least 1.
int64_t prepared_floats(std::span<const LinearPartCall> calls);

}  // namespace quire::ops::cpu

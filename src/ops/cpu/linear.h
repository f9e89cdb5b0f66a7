// The packed linear on the CPU. Arguments were checked by ops/linear.cc.
#pragma once

#include "ops/linear.h"

namespace quire::ops::cpu {

void pack_rows(OpContext& context, const MatrixView& source, int64_t first_row, int64_t first_col,
               PackedMatrix& matrix);

/// Zeroes the lanes beyond out_features for input features [first_col, last_col).
void zero_padding(PackedMatrix& matrix, int64_t first_col, int64_t last_col);

void linear(OpContext& context, const Tensor& x, const PackedMatrix& weight, const Tensor& bias, Tensor& out,
            LinearOutput mode);

void gather_rows(OpContext& context, const PackedMatrix& table, const Tensor& ids, Tensor& out);

}  // namespace quire::ops::cpu

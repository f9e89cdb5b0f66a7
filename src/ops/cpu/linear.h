// The packed linear on the CPU. Arguments were checked by ops/linear.cc.
#pragma once

#include <span>

#include "ops/cpu/kernels/linear.h"
#include "ops/grouped_linear.h"
#include "ops/linear.h"

namespace quire::ops::cpu {

/// The kernels' name of a float storage type.
Storage storage_of(DType dtype);

/// The kernels that multiply with this weight.
const LinearKernels& linear_kernels_of(const PackedMatrix& weight);

/// The weight's input features as those kernels count them.
int64_t features_of(const PackedMatrix& weight, const LinearKernels& kernels);

/// The call with its rows as the kernels take them: through prepare_row into `prepared`, [rows, in_features], where
/// they have one.
LinearCall with_prepared_rows(const LinearKernels& kernels, const LinearCall& call, float* prepared);

void pack_rows(OpContext& context, const MatrixView& source, int64_t first_row, int64_t first_col,
               PackedMatrix& matrix);

/// Zeroes the lanes beyond out_features for input features [first_col, last_col).
void zero_padding(PackedMatrix& matrix, int64_t first_col, int64_t last_col);

void linear(OpContext& context, const Tensor& x, const PackedMatrix& weight, const Tensor& bias, Tensor& out,
            std::span<const LinearPart> parts);

/// Widens channel `channel` of the table into `out`, which holds in_features values.
void gather_row(const PackedMatrix& table, int64_t channel, float* out);

void gather_rows(OpContext& context, const PackedMatrix& table, const Tensor& ids, Tensor& out);

}  // namespace quire::ops::cpu

// Rows and columns of a few listed tokens: how an adapter that retrains some tokens replaces theirs.
#pragma once

#include "ops/linear.h"
#include "tensor/op_context.h"
#include "tensor/tensor.h"

namespace quire::ops {

/// out[i] = row j of `table` where listed[j] == ids[i]; other rows of out stay as they are. ids: [1, n] int32; listed:
/// [1, table's rows] int32, ascending; out: [n, table's columns] float32.
void gather_listed_rows(OpContext& context, const Tensor& ids, const Tensor& listed, const PackedMatrix& table,
                        Tensor& out);

/// out[r, listed[j]] = x[r, j]. x: [rows, n] float32; listed: [1, n] int32, each a column of out.
void scatter_columns(OpContext& context, const Tensor& x, const Tensor& listed, Tensor& out);

}  // namespace quire::ops

// Token ids as a table wants them: counted from the first row that a rank holds, or only those of a few listed tokens,
// which is how an adapter that retrains some tokens replaces theirs.
#pragma once

#include "ops/linear.h"
#include "tensor/op_context.h"
#include "tensor/tensor.h"

namespace quire::ops {

/// out[i] = ids[i] - first where that lies in [0, count), else -1, for which a lookup gives zeros. Both [1, n] int32.
void local_ids(OpContext& context, const Tensor& ids, int64_t first, int64_t count, Tensor& out);

/// out[i] = row j of `table` where listed[j] == ids[i]; other rows of out stay as they are. ids: [1, n] int32; listed:
/// [1, table's rows] int32, ascending; out: [n, table's columns] float32.
void gather_listed_rows(OpContext& context, const Tensor& ids, const Tensor& listed, const PackedMatrix& table,
                        Tensor& out);

/// out[r, listed[j]] = x[r, j]. x: [rows, n] float32; listed: [1, n] int32, each a column of out.
void scatter_columns(OpContext& context, const Tensor& x, const Tensor& listed, Tensor& out);

}  // namespace quire::ops

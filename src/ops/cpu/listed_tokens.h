// Rows and columns of listed tokens on the CPU. Arguments were checked by ops/listed_tokens.cc.
#pragma once

#include "ops/linear.h"

namespace quire::ops::cpu {

void local_ids(const Tensor& ids, int64_t first, int64_t count, Tensor& out);

void gather_listed_rows(const Tensor& ids, const Tensor& listed, const PackedMatrix& table, Tensor& out);

void scatter_columns(const Tensor& x, const Tensor& listed, Tensor& out);

}  // namespace quire::ops::cpu

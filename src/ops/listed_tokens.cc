#include "ops/listed_tokens.h"

#include "ops/checks.h"
#include "ops/cpu/listed_tokens.h"

namespace quire::ops {

void local_ids(OpContext& context, const Tensor& ids, int64_t first, int64_t count, Tensor& out) {
  QUIRE_CHECK(is_vector(ids, DType::kInt32, ids.cols()) && is_vector(out, DType::kInt32, ids.cols()));
  switch (context.device.type) {
    case DeviceType::kCpu:
      return cpu::local_ids(ids, first, count, out);
  }
}

void gather_listed_rows(OpContext& context, const Tensor& ids, const Tensor& listed, const PackedMatrix& table,
                        Tensor& out) {
  QUIRE_CHECK(is_vector(ids, DType::kInt32, ids.cols()) && is_vector(listed, DType::kInt32, table.out_features));
  QUIRE_CHECK(is_float(out, ids.cols(), table.in_features) && table.panels.defined());
  switch (context.device.type) {
    case DeviceType::kCpu:
      return cpu::gather_listed_rows(ids, listed, table, out);
  }
}

void scatter_columns(OpContext& context, const Tensor& x, const Tensor& listed, Tensor& out) {
  QUIRE_CHECK(is_float(x, x.rows(), listed.cols()) && is_vector(listed, DType::kInt32, listed.cols()));
  QUIRE_CHECK(is_float(out, x.rows(), out.cols()));
  switch (context.device.type) {
    case DeviceType::kCpu:
      return cpu::scatter_columns(x, listed, out);
  }
}

}  // namespace quire::ops

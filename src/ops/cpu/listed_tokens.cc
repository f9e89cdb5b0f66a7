#include "ops/cpu/listed_tokens.h"

#include <algorithm>

#include "base/check.h"
#include "ops/cpu/linear.h"

namespace quire::ops::cpu {

void local_ids(const Tensor& ids, int64_t first, int64_t count, Tensor& out) {
  for (int64_t i = 0; i < ids.cols(); ++i) {
    const int64_t local = ids.data<int32_t>()[i] - first;
    out.data<int32_t>()[i] = local >= 0 && local < count ? static_cast<int32_t>(local) : -1;
  }
}

void gather_listed_rows(const Tensor& ids, const Tensor& listed, const PackedMatrix& table, Tensor& out) {
  const int32_t* const begin = listed.data<int32_t>();
  const int32_t* const end = begin + listed.cols();
  for (int64_t i = 0; i < ids.cols(); ++i) {
    const int32_t id = ids.data<int32_t>()[i];
    const int32_t* const found = std::lower_bound(begin, end, id);
    if (found == end || *found != id) continue;
    gather_row(table, found - begin, out.row<float>(i));
  }
}

void scatter_columns(const Tensor& x, const Tensor& listed, Tensor& out) {
  for (int64_t j = 0; j < listed.cols(); ++j) {
    const int32_t column = listed.data<int32_t>()[j];
    QUIRE_CHECK(column >= 0 && column < out.cols());
    for (int64_t row = 0; row < x.rows(); ++row) out.row<float>(row)[column] = x.row<float>(row)[j];
  }
}

}  // namespace quire::ops::cpu

#include "lora/lora_norms.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/copy.h"

namespace quire {
namespace {

/// Rows of a base weight that are widened at a time.
constexpr int64_t kRows = 64;

using Floats = std::vector<float>;

/// Calls gather(ids, out) for rows [first, first + count) and gives them as floats.
template <typename Gather>
Floats rows_of(OpContext& context, int64_t first, int64_t count, int64_t cols, const Gather& gather) {
  const Workspace::Scope scope(*context.workspace);
  std::vector<int32_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), static_cast<int32_t>(first));
  Tensor ids = context.workspace->tensor(1, count, DType::kInt32);
  ops::copy_from_host(context, std::span<const int32_t>(numbers), ids);
  Tensor rows = context.workspace->tensor(count, cols);
  gather(ids, rows);
  Floats values(static_cast<size_t>(count * cols));
  ops::copy_to_host(context, rows, values);
  return values;
}

Floats rows_of(OpContext& context, const ops::PackedMatrix& matrix, int64_t first, int64_t count) {
  return rows_of(context, first, count, matrix.in_features,
                 [&](const Tensor& ids, Tensor& out) { ops::gather_rows(context, matrix, ids, out); });
}

/// row[k] += scale * sum over j ascending of factors[j] * basis[j][k].
void add_combination(const float* factors, int64_t count, float scale, const Floats& basis, int64_t size, float* row) {
  for (int64_t j = 0; j < count; ++j) {
    const float factor = scale * factors[j];
    const float* const other = basis.data() + j * size;
    for (int64_t k = 0; k < size; ++k) row[k] += factor * other[k];
  }
}

double sum_of_squares(const float* row, int64_t size) {
  double sums[4] = {};
  for (int64_t k = 0; k < size; ++k) sums[k % 4] += static_cast<double>(row[k]) * static_cast<double>(row[k]);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

}  // namespace

std::vector<float> weight_rows(OpContext& context, const LinearWeight& weight, int64_t first, int64_t count) {
  return rows_of(context, first, count, weight.in_features(),
                 [&](const Tensor& ids, Tensor& out) { weight.gather(context, ids, out); });
}

std::vector<double> row_squares(OpContext& context, const LinearWeight& weight, int64_t first_row,
                                const LowRank& delta) {
  const int64_t inputs = weight.in_features();
  const int64_t outputs = delta.b.out_features;
  const int64_t rank = delta.b.in_features;
  const Floats a = rows_of(context, delta.a, delta.first_rank, rank);
  std::vector<double> squares(static_cast<size_t>(outputs));
  for (int64_t first = 0; first < outputs; first += kRows) {
    const int64_t count = std::min(kRows, outputs - first);
    Floats rows = weight_rows(context, weight, first_row + first, count);
    const Floats b = rows_of(context, delta.b, first, count);
    for (int64_t i = 0; i < count; ++i) {
      float* const row = rows.data() + i * inputs;
      add_combination(b.data() + i * rank, rank, delta.scale, a, inputs, row);
      squares[static_cast<size_t>(first + i)] = sum_of_squares(row, inputs);
    }
  }
  return squares;
}

std::vector<double> column_squares(OpContext& context, const LinearWeight& weight, const LowRank& delta) {
  const int64_t hidden = weight.in_features();
  const int64_t vocabulary = delta.a.out_features;
  const int64_t rank = delta.b.in_features;
  const Floats b = rows_of(context, delta.b, 0, hidden);
  Floats basis(static_cast<size_t>(rank * hidden));  // B transposed
  for (int64_t j = 0; j < rank; ++j) {
    for (int64_t k = 0; k < hidden; ++k) {
      basis[static_cast<size_t>(j * hidden + k)] = b[static_cast<size_t>(k * rank + j)];
    }
  }
  std::vector<double> squares(static_cast<size_t>(hidden));
  for (int64_t first = 0; first < vocabulary; first += kRows) {
    const int64_t count = std::min(kRows, vocabulary - first);
    Floats rows = weight_rows(context, weight, first, count);
    const Floats a = rows_of(context, delta.a, first, count);
    for (int64_t i = 0; i < count; ++i) {
      float* const row = rows.data() + i * hidden;
      add_combination(a.data() + i * rank, rank, delta.scale, basis, hidden, row);
      for (int64_t k = 0; k < hidden; ++k) {
        squares[static_cast<size_t>(k)] += static_cast<double>(row[k]) * static_cast<double>(row[k]);
      }
    }
  }
  return squares;
}

std::vector<double> roots_of(std::span<const double> squares) {
  std::vector<double> roots;
  for (const double square : squares) roots.push_back(std::sqrt(square));
  return roots;
}

}  // namespace quire

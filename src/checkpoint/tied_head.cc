#include "checkpoint/tied_head.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tensor/convert.h"

namespace quire {
namespace {

constexpr int64_t kRowsAtOnce = 1024;

/// Whether two views of the same shape hold the same numbers.
bool same_values(const MatrixView& a, const MatrixView& b) {
  if (a.dtype == b.dtype) {
    const auto bytes = static_cast<size_t>(a.rows * a.cols) * dtype_size(a.dtype);
    return std::memcmp(a.data, b.data, bytes) == 0;
  }
  std::vector<float> left(static_cast<size_t>(a.cols));
  std::vector<float> right(static_cast<size_t>(b.cols));
  for (int64_t row = 0; row < a.rows; ++row) {
    row_to_float(a, row, left.data());
    row_to_float(b, row, right.data());
    if (left != right) return false;
  }
  return true;
}

Result<bool> same_tensor(const WeightSource& source, const WeightInfo& a, const WeightInfo& b) {
  if (a.shape != b.shape) return false;
  std::vector<float> scratch_a;
  std::vector<float> scratch_b;
  for (int64_t row = 0; row < a.rows(); row += kRowsAtOnce) {
    const int64_t count = std::min(kRowsAtOnce, a.rows() - row);
    QUIRE_ASSIGN_OR_RETURN(const MatrixView left, source.read_rows(a, row, count, scratch_a));
    QUIRE_ASSIGN_OR_RETURN(const MatrixView right, source.read_rows(b, row, count, scratch_b));
    if (!same_values(left, right)) return false;
  }
  return true;
}

}  // namespace

Result<std::string> judge_tied_head(const Checkpoint& checkpoint) {
  if (!checkpoint.config.tie_word_embeddings) return std::string();
  const WeightSource& source = *checkpoint.weights;
  const WeightInfo* const head = source.find("lm_head.weight");
  const WeightInfo* const embedding = source.find("model.embed_tokens.weight");
  if (head == nullptr || embedding == nullptr) return std::string();
  QUIRE_ASSIGN_OR_RETURN(const bool same, same_tensor(source, *head, *embedding));
  source.release(*head);
  if (same) return std::string();
  return checkpoint.path.string() +
         ": the stored lm_head.weight differs from model.embed_tokens.weight and is not used, since the config has "
         "tie_word_embeddings; set that to false in config.json to use it";
}

}  // namespace quire

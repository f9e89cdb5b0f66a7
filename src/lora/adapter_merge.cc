#include "lora/adapter_merge.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

#include "checkpoint/printable.h"
#include "lora/adapter_tensors.h"
#include "tensor/convert.h"

namespace quire {
namespace {

constexpr int64_t kMergedAtOnce = 1 << 20;

/// How many rows of `cols` values to work on together.
int64_t rows_at_once(int64_t cols) { return std::max<int64_t>(1, kMergedAtOnce / std::max<int64_t>(1, cols)); }

std::vector<float> transposed(const std::vector<float>& values, int64_t rows, int64_t cols) {
  std::vector<float> result(values.size());
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < cols; ++col) {
      result[static_cast<size_t>(col * rows + row)] = values[static_cast<size_t>(row * cols + col)];
    }
  }
  return result;
}

/// The rows of one changed weight.
class MergedRows {
 public:
  MergedRows(const MergedTensor& tensor, const AdapterFiles& files, const AdapterBase& base, ThreadPool& pool)
      : module_(*tensor.module), weight_(*tensor.base), files_(files.tensors()), base_(base.tensors()), pool_(pool) {}

  /// Reads the pair. An embedding's delta is the transposed: its row for a token is B times a column of A.
  Status prepare() {
    for (size_t i = 0; i < module_.token_ids.size(); ++i) {
      replaced_rows_.emplace(module_.token_ids[i], static_cast<int64_t>(i));
    }
    if (module_.a == nullptr) return {};
    QUIRE_ASSIGN_OR_RETURN(right_, read_floats({files_, *module_.a}));
    QUIRE_ASSIGN_OR_RETURN(left_, read_floats({files_, *module_.b}));
    if (module_.embedding) {
      std::vector<float> columns = transposed(right_, module_.rank, weight_.rows());
      right_ = transposed(left_, weight_.cols(), module_.rank);
      left_ = std::move(columns);
    }
    if (module_.magnitude == nullptr) return {};
    QUIRE_ASSIGN_OR_RETURN(magnitude_, read_floats({files_, *module_.magnitude}));
    return module_.embedding ? prepare_column_gains() : Status();
  }

  /// Rows [begin, begin + count), as they are after the merge.
  Status read(int64_t begin, int64_t count, float* out) const {
    QUIRE_RETURN_IF_ERROR(read_changed(begin, count, out));
    if (magnitude_.empty()) return {};
    const int64_t cols = weight_.cols();
    pool_.parallel_for(count, [&](int64_t i, int) {
      float* row = out + i * cols;
      if (module_.embedding) {
        for (int64_t j = 0; j < cols; ++j) row[j] *= column_gains_[static_cast<size_t>(j)];
        return;
      }
      double squares = 0;
      for (int64_t j = 0; j < cols; ++j) squares += static_cast<double>(row[j]) * row[j];
      const auto gain = static_cast<float>(magnitude_[static_cast<size_t>(begin + i)] / std::sqrt(squares));
      for (int64_t j = 0; j < cols; ++j) row[j] *= gain;
    });
    return {};
  }

 private:
  /// W + scale * B A, or the rows that replace W's.
  Status read_changed(int64_t begin, int64_t count, float* out) const {
    const bool whole = module_.weight != nullptr;
    std::vector<float> scratch;
    QUIRE_ASSIGN_OR_RETURN(const MatrixView view, whole ? files_.read_rows(*module_.weight, begin, count, scratch)
                                                        : base_.read_rows(weight_, begin, count, scratch));
    const int64_t cols = weight_.cols();
    pool_.parallel_for(count, [&](int64_t i, int) {
      row_to_float(view, i, out + i * cols);
      if (module_.a != nullptr) add_delta(begin + i, out + i * cols);
    });
    for (auto at = replaced_rows_.lower_bound(begin); at != replaced_rows_.end() && at->first < begin + count; ++at) {
      QUIRE_ASSIGN_OR_RETURN(const MatrixView row, files_.read_rows(*module_.token_rows, at->second, 1, scratch));
      row_to_float(row, 0, out + (at->first - begin) * cols);
    }
    return {};
  }

  void add_delta(int64_t row, float* out) const {
    const int64_t cols = weight_.cols();
    const float* left = left_.data() + row * module_.rank;
    std::vector<float> delta(static_cast<size_t>(cols));
    for (int64_t k = 0; k < module_.rank; ++k) {
      const float* right = right_.data() + k * cols;
      for (int64_t j = 0; j < cols; ++j) delta[static_cast<size_t>(j)] += left[k] * right[j];
    }
    for (int64_t j = 0; j < cols; ++j) out[j] += module_.scale * delta[static_cast<size_t>(j)];
  }

  /// DoRA on an embedding: the norms are those of the columns over the whole vocabulary.
  Status prepare_column_gains() {
    const int64_t cols = weight_.cols();
    std::vector<double> squares(static_cast<size_t>(cols));
    const int64_t step = rows_at_once(cols);
    std::vector<float> rows(static_cast<size_t>(step * cols));
    for (int64_t begin = 0; begin < weight_.rows(); begin += step) {
      const int64_t count = std::min(step, weight_.rows() - begin);
      QUIRE_RETURN_IF_ERROR(read_changed(begin, count, rows.data()));
      for (int64_t i = 0; i < count; ++i) {
        const float* row = rows.data() + i * cols;
        for (int64_t j = 0; j < cols; ++j) squares[static_cast<size_t>(j)] += static_cast<double>(row[j]) * row[j];
      }
    }
    column_gains_.resize(squares.size());
    for (size_t j = 0; j < squares.size(); ++j) {
      column_gains_[j] = static_cast<float>(magnitude_[j] / std::sqrt(squares[j]));
    }
    return {};
  }

  const AdapterModule& module_;
  const WeightInfo& weight_;
  const WeightSource& files_;
  const WeightSource& base_;
  ThreadPool& pool_;
  std::vector<float> left_;          ///< [rows of the weight, rank]
  std::vector<float> right_;         ///< [rank, columns of the weight]
  std::vector<float> magnitude_;     ///< empty without DoRA
  std::vector<float> column_gains_;  ///< DoRA on an embedding
  std::map<int64_t, int64_t> replaced_rows_;
};

Result<std::vector<float>> merged_bias(const MergedTensor& tensor, const AdapterFiles& files, const AdapterBase& base) {
  const AdapterModule& module = *tensor.module;
  const bool replaced = module.bias != nullptr;
  QUIRE_ASSIGN_OR_RETURN(std::vector<float> bias, replaced ? read_floats({files.tensors(), *module.bias})
                                                           : read_floats({base.tensors(), *tensor.base}));
  if (module.lora_bias == nullptr) return bias;
  QUIRE_ASSIGN_OR_RETURN(const std::vector<float> more, read_floats({files.tensors(), *module.lora_bias}));
  for (size_t i = 0; i < bias.size(); ++i) bias[i] += module.scale * more[i];
  return bias;
}

/// Rounds to the output's type and hands the bytes on.
class RoundingSink {
 public:
  RoundingSink(const SafetensorsTensor& out, const ByteSink& sink) : out_(out), sink_(sink) {}

  Status write(std::span<const float> values) {
    bool finite = true;
    for (const float value : values) finite &= std::isfinite(value);
    if (out_.dtype == "F32") return finite ? sink_(std::as_bytes(values)) : does_not_fit();
    const bool bfloat = out_.dtype == "BF16";
    rounded_.resize(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      rounded_[i] = bfloat ? float_to_bfloat16(values[i]) : float_to_float16(values[i]);
      const int exponent = bfloat ? 0x7f80 : 0x7c00;
      finite &= (rounded_[i] & exponent) != exponent;
    }
    return finite ? sink_(std::as_bytes(std::span(rounded_))) : does_not_fit();
  }

 private:
  Error does_not_fit() const {
    return invalid_argument("the merged tensor " + quote_name(out_.name) + " has values that " + out_.dtype +
                            " cannot hold");
  }

  const SafetensorsTensor& out_;
  const ByteSink& sink_;
  std::vector<uint16_t> rounded_;
};

/// The base's own values. A view of float32 values that were widened for alignment is rounded back, which is exact.
Status copy_tensor(const MergedTensor& tensor, const AdapterBase& base, const ByteSink& sink) {
  const int64_t rows = tensor.base->rows(), cols = tensor.base->cols();
  const int64_t step = rows_at_once(cols);
  std::vector<float> scratch;
  RoundingSink rounding(tensor.out, sink);
  for (int64_t begin = 0; begin < rows && cols > 0; begin += step) {
    const int64_t count = std::min(step, rows - begin);
    QUIRE_ASSIGN_OR_RETURN(const MatrixView view, base.tensors().read_rows(*tensor.base, begin, count, scratch));
    const auto elements = static_cast<size_t>(count * cols);
    const bool as_stored = static_cast<size_t>(rows * cols) * dtype_size(view.dtype) == tensor.out.bytes;
    if (as_stored) {
      QUIRE_RETURN_IF_ERROR(sink({static_cast<const std::byte*>(view.data), elements * dtype_size(view.dtype)}));
    } else {
      QUIRE_RETURN_IF_ERROR(rounding.write({static_cast<const float*>(view.data), elements}));
    }
  }
  return {};
}

}  // namespace

Status write_merged_tensor(const MergedTensor& tensor, const AdapterFiles& files, const AdapterBase& base,
                           ThreadPool& pool, const ByteSink& sink) {
  if (tensor.module == nullptr) return copy_tensor(tensor, base, sink);
  RoundingSink rounding(tensor.out, sink);
  if (tensor.is_bias) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<float> bias, merged_bias(tensor, files, base));
    return rounding.write(bias);
  }
  MergedRows merged(tensor, files, base, pool);
  QUIRE_RETURN_IF_ERROR(merged.prepare());
  const int64_t rows = tensor.base->rows(), cols = tensor.base->cols();
  const int64_t step = rows_at_once(cols);
  std::vector<float> values;
  for (int64_t begin = 0; begin < rows; begin += step) {
    const int64_t count = std::min(step, rows - begin);
    values.resize(static_cast<size_t>(count * cols));
    QUIRE_RETURN_IF_ERROR(merged.read(begin, count, values.data()));
    QUIRE_RETURN_IF_ERROR(rounding.write(values));
  }
  return {};
}

}  // namespace quire

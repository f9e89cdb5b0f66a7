#include "layers/weight_loading.h"

#include <algorithm>
#include <mutex>
#include <optional>

#include "tensor/convert.h"

namespace quire {

namespace {

/// Checkpoint rows read at a time by one thread: enough to stream, little enough for the scratch of a quantized source.
constexpr int64_t kLoadRows = 256;

/// Splits runs where the destination crosses a multiple of `unit` rows, so that parts can be loaded at the same time.
std::vector<RowRun> split_runs(std::span<const RowRun> runs, int64_t unit) {
  std::vector<RowRun> parts;
  for (RowRun run : runs) {
    while (run.count > 0) {
      const int64_t count = std::min(run.count, unit - run.local % unit);
      parts.push_back({run.source, run.local, count});
      run = {run.source + count, run.local + count, run.count - count};
    }
  }
  return parts;
}

}  // namespace

Status load_matrix(OpContext& context, const WeightSource& source, const WeightInfo& weight,
                   std::span<const RowRun> runs, Range input, LinearWeight& target) {
  const int64_t row_unit = target.row_unit();
  const std::vector<RowRun> parts = split_runs(runs, (kLoadRows + row_unit - 1) / row_unit * row_unit);
  bool as_stored = false;
  for (const RowRun& run : runs) {
    as_stored |= target.begin_rows(context, source.stored_block_type(weight), input.begin, run.local, run.count);
  }
  std::vector<std::vector<float>> scratch(static_cast<size_t>(context.pool->size()));
  std::mutex mutex;
  std::optional<Error> error;
  context.pool->parallel_for(static_cast<int64_t>(parts.size()), [&](int64_t index, int worker) {
    const RowRun& part = parts[static_cast<size_t>(index)];
    if (as_stored) {
      for (int64_t row = 0; row < part.count; ++row) {
        target.load_stored_row(source.stored_row(weight, part.source + row), part.local + row);
      }
      return;
    }
    auto rows = source.read_rows(weight, part.source, part.count, scratch[static_cast<size_t>(worker)]);
    if (!rows.ok()) {
      const std::lock_guard lock(mutex);
      if (!error) error = rows.error();
      return;
    }
    MatrixView view = *rows;
    view.data = static_cast<const char*>(view.data) + static_cast<size_t>(input.begin) * dtype_size(view.dtype);
    view.cols = input.size();
    target.load_rows(context, view, part.local);
  });
  if (error) return *error;
  return {};
}

Result<std::vector<float>> load_vector(const WeightSource& source, const WeightInfo& weight, DType storage) {
  std::vector<float> scratch;
  std::vector<float> values(static_cast<size_t>(weight.rows() * weight.cols()));
  QUIRE_ASSIGN_OR_RETURN(const MatrixView view, source.read_rows(weight, 0, weight.rows(), scratch));
  for (int64_t row = 0; row < view.rows; ++row) row_to_float(view, row, values.data() + row * view.cols);
  for (float& value : values) value = round_to(value, storage);
  return values;
}

}  // namespace quire

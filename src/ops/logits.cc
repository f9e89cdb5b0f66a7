#include "ops/logits.h"

#include <algorithm>

#include "ops/checks.h"
#include "ops/copy.h"
#include "ops/cpu/backend.h"

namespace quire::ops {

namespace {

bool has_row(const Tensor& logits, int64_t row) {
  return logits.dtype() == DType::kFloat32 && row >= 0 && row < logits.rows() && logits.defined();
}

}  // namespace

void row_statistics(OpContext& context, const Tensor& logits, std::span<RowStatistics> out) {
  QUIRE_CHECK(is_float(logits, static_cast<int64_t>(out.size()), logits.cols()) && logits.cols() > 0);
  QUIRE_CHECK(context.workspace != nullptr);
  switch (context.device.type) {
    case DeviceType::kCpu:
      cpu::row_statistics(cpu::kernels(), context, logits, out);
  }
}

std::vector<TokenValue> top_logits(const OpContext& context, const Tensor& logits, int64_t row, int64_t count) {
  QUIRE_CHECK(has_row(logits, row));
  count = std::clamp<int64_t>(count, 0, logits.cols());
  if (count == 0) return {};
  switch (context.device.type) {
    case DeviceType::kCpu:
      return cpu::top_logits(cpu::kernels(), logits, row, count);
  }
  return {};
}

int64_t count_larger(const OpContext& context, const Tensor& logits, int64_t row, float value) {
  QUIRE_CHECK(has_row(logits, row));
  switch (context.device.type) {
    case DeviceType::kCpu:
      return cpu::count_larger(cpu::kernels(), logits, row, value);
  }
  return 0;
}

void copy_row_to_host(const OpContext& context, const Tensor& logits, int64_t row, std::span<float> out) {
  QUIRE_CHECK(has_row(logits, row));
  OpContext copying = context;
  copy_to_host(copying, logits.slice_rows(row, 1), out);
}

void gather_logits(const OpContext& context, const Tensor& logits, int64_t row, std::span<const int32_t> tokens,
                   std::span<float> out) {
  QUIRE_CHECK(has_row(logits, row) && tokens.size() == out.size());
  for (const int32_t token : tokens) QUIRE_CHECK(token >= 0 && token < logits.cols());
  switch (context.device.type) {
    case DeviceType::kCpu:
      cpu::gather_logits(logits, row, tokens, out);
  }
}

}  // namespace quire::ops

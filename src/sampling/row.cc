#include "sampling/row.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace quire {

LogitsRow::LogitsRow(const OpContext& context, const Tensor& logits, int64_t index,
                     const ops::RowStatistics& statistics)
    : context_(context), logits_(logits), index_(index), statistics_(statistics) {
  if (!usable(statistics)) mend();
}

bool LogitsRow::usable(const ops::RowStatistics& statistics) {
  return std::isfinite(statistics.best.value) && std::isfinite(statistics.log_sum_exp) && statistics.best.token >= 0;
}

void LogitsRow::mend() {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  mended_.resize(static_cast<size_t>(logits_.cols()));
  ops::copy_row_to_host(context_, logits_, index_, mended_);
  ops::TokenValue best{0, -kInfinity};
  for (size_t token = 0; token < mended_.size(); ++token) {
    float& value = mended_[token];
    value = std::isnan(value) ? -kInfinity : std::min(value, std::numeric_limits<float>::max());
    if (value > best.value) best = {static_cast<int32_t>(token), value};
  }
  double sum = 0.0;
  for (const float value : mended_) sum += std::isinf(value) ? 0.0 : std::exp(static_cast<double>(value) - best.value);
  statistics_ = {best, sum > 0.0 ? static_cast<float>(best.value + std::log(sum)) : 0.0f};
  context_.device = Device{};
  logits_ = Tensor::view(mended_.data(), 1, static_cast<int64_t>(mended_.size()), DType::kFloat32);
  index_ = 0;
}

void LogitsRow::copy_to(std::vector<float>& out) const {
  out.resize(static_cast<size_t>(size()));
  ops::copy_row_to_host(context_, logits_, index_, out);
}

std::vector<TokenLogprob> LogitsRow::logprobs(int32_t token, int64_t count) const {
  const auto logprob = [&](float logit) {
    return static_cast<float>(static_cast<double>(logit) - statistics_.log_sum_exp);
  };
  float logit = 0.0f;
  ops::gather_logits(context_, logits_, index_, {&token, 1}, {&logit, 1});
  const int64_t wanted = count < 0 ? size() : std::min(count, size());
  std::vector<TokenLogprob> result;
  result.reserve(static_cast<size_t>(wanted) + 1);
  result.push_back(
      {token, logprob(logit), token == best().token ? 1 : ops::count_larger(context_, logits_, index_, logit) + 1});
  if (wanted == 0) return result;
  int64_t rank = 0;
  for (const ops::TokenValue& top : ops::top_logits(context_, logits_, index_, wanted))
    result.push_back({top.token, logprob(top.value), ++rank});
  return result;
}

}  // namespace quire

#include "sampling/row.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

namespace quire {

LogitsRow::LogitsRow(const OpContext& context, const Tensor& logits, int64_t index,
                     const ops::RowStatistics& statistics)
    : context_(context), logits_(logits), index_(index), statistics_(statistics) {
  if (!usable(statistics)) mend();
}

bool LogitsRow::usable(const ops::RowStatistics& statistics) {
  return std::isfinite(statistics.best.value) && std::isfinite(statistics.log_sum_exp) && statistics.best.token >= 0;
}

LogitsRow::LogitsRow(std::span<float> values) : index_(0) { mend_in_place(values); }

void LogitsRow::mend() {
  static std::once_flag said;
  std::call_once(said, [] {
    spdlog::warn(
        "The model's scores are not finite numbers, so that its tokens mean nothing; its weights may be damaged, or "
        "too "
        "large for --dtype float16");
  });
  mended_.resize(static_cast<size_t>(logits_.cols()));
  ops::copy_row_to_host(context_, logits_, index_, mended_);
  mend_in_place(mended_);
}

void LogitsRow::mend_in_place(std::span<float> values) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  ops::TokenValue best{0, -kInfinity};
  for (size_t token = 0; token < values.size(); ++token) {
    float& value = values[token];
    value = std::isnan(value) ? -kInfinity : std::min(value, std::numeric_limits<float>::max());
    if (value > best.value) best = {static_cast<int32_t>(token), value};
  }
  double sum = 0.0;
  for (const float value : values) sum += std::isinf(value) ? 0.0 : std::exp(static_cast<double>(value) - best.value);
  statistics_ = {best, sum > 0.0 ? static_cast<float>(best.value + std::log(sum)) : 0.0f};
  context_ = {};
  logits_ = Tensor::view(values.data(), 1, static_cast<int64_t>(values.size()), DType::kFloat32);
  index_ = 0;
}

void LogitsRow::copy_to(std::vector<float>& out) const {
  out.resize(static_cast<size_t>(size()));
  ops::copy_row_to_host(context_, logits_, index_, out);
}

std::vector<TokenLogprob> LogitsRow::values(int32_t token, const Values& wanted) const {
  const auto value = [&](float logit) {
    if (wanted.as_logits) return logit;
    return std::min(0.0f, static_cast<float>(static_cast<double>(logit) - statistics_.log_sum_exp));
  };
  const auto ranked = [&](int32_t id) {
    float logit = 0.0f;
    ops::gather_logits(context_, logits_, index_, {&id, 1}, {&logit, 1});
    const int64_t larger = id == best().token ? 0 : ops::count_larger(context_, logits_, index_, logit);
    return TokenLogprob{id, value(logit), larger + 1};
  };
  const int64_t most_likely = wanted.most_likely < 0 ? size() : std::min(wanted.most_likely, size());
  std::vector<TokenLogprob> result;
  result.reserve(1 + (wanted.tokens.empty() ? static_cast<size_t>(most_likely) : wanted.tokens.size()));
  result.push_back(ranked(token));
  for (const int32_t id : wanted.tokens) result.push_back(ranked(id));
  if (!wanted.tokens.empty() || most_likely == 0) return result;
  int64_t rank = 0;
  for (const ops::TokenValue& top : ops::top_logits(context_, logits_, index_, most_likely))
    result.push_back({top.token, value(top.value), ++rank});
  return result;
}

}  // namespace quire

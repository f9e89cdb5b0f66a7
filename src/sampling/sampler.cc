// Rows side by side: one pass over all rows for what greedy rows need, then the others, one task for each.
#include "sampling/sampler.h"

#include "sampling/choose.h"
#include "sampling/row.h"

namespace quire {
namespace {

template <typename Function>
void for_each_row(const OpContext& context, int64_t count, Function&& fn) {
  if (context.pool != nullptr && count > 1) {
    context.pool->parallel_for(count, [&](int64_t index, int) { fn(static_cast<size_t>(index)); });
  } else {
    for (int64_t index = 0; index < count; ++index) fn(static_cast<size_t>(index));
  }
}

std::vector<ops::RowStatistics> all_statistics(OpContext& context, const Tensor& logits) {
  std::vector<ops::RowStatistics> statistics(static_cast<size_t>(logits.rows()));
  if (!statistics.empty()) ops::row_statistics(context, logits, statistics);
  return statistics;
}

int32_t choose(const LogitsRow& row, const SamplingRow& sampling) {
  if (sampling.params->greedy()) return row.best().token;
  thread_local std::vector<float> values;
  thread_local ChooseScratch scratch;
  row.copy_to(values);
  const TokenNoise noise(sampling.seed, sampling.choice, sampling.position);
  return choose_token(values, row.best().token, *sampling.params, noise, scratch);
}

}  // namespace

void sample(OpContext& context, const Tensor& logits, std::span<const SamplingRow> rows, std::span<SampledToken> out) {
  QUIRE_CHECK(static_cast<int64_t>(rows.size()) == logits.rows() && out.size() == rows.size());
  const std::vector<ops::RowStatistics> statistics = all_statistics(context, logits);
  std::vector<size_t> remaining;  // rows for which the largest logit is not all there is to say
  for (size_t i = 0; i < rows.size(); ++i) {
    const SamplingParams& params = *rows[i].params;
    if (params.greedy() && !params.logprobs && LogitsRow::usable(statistics[i])) {
      out[i] = {statistics[i].best.token, {}};
    } else {
      remaining.push_back(i);
    }
  }
  for_each_row(context, static_cast<int64_t>(remaining.size()), [&](size_t task) {
    const size_t i = remaining[task];
    const LogitsRow row(context, logits, static_cast<int64_t>(i), statistics[i]);
    const int32_t token = choose(row, rows[i]);
    const std::optional<int64_t>& count = rows[i].params->logprobs;
    out[i] = {token, count ? row.logprobs(token, *count) : std::vector<TokenLogprob>{}};
  });
}

void score(OpContext& context, const Tensor& logits, std::span<const int32_t> next_tokens,
           std::span<const int64_t> counts, std::span<SampledToken> out) {
  QUIRE_CHECK(static_cast<int64_t>(next_tokens.size()) == logits.rows());
  QUIRE_CHECK(counts.size() == next_tokens.size() && out.size() == next_tokens.size());
  const std::vector<ops::RowStatistics> statistics = all_statistics(context, logits);
  for_each_row(context, logits.rows(), [&](size_t i) {
    const LogitsRow row(context, logits, static_cast<int64_t>(i), statistics[i]);
    out[i] = {next_tokens[i], row.logprobs(next_tokens[i], counts[i])};
  });
}

}  // namespace quire

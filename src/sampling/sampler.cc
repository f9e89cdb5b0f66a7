// Rows side by side: one pass over all rows for what greedy rows need, then the others, one task for each.
#include "sampling/sampler.h"

#include <cmath>

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

/// Memory that a thread reuses from row to row.
struct Scratch {
  std::vector<float> values;
  ChooseScratch choose;
};

int32_t likeliest_after(const LogitEdits& edits, std::span<float> values, int32_t likeliest) {
  const int32_t last_resort = edits.apply(values, likeliest);
  const int32_t best = largest_logit(values);
  return std::isinf(values[static_cast<size_t>(best)]) ? last_resort : best;
}

bool processed(LogprobsMode mode) {
  return mode == LogprobsMode::kProcessedLogprobs || mode == LogprobsMode::kProcessedLogits;
}

SampledToken sample_row(const LogitsRow& row, const SamplingRow& sampling) {
  thread_local Scratch scratch;
  const SamplingParams& params = *sampling.params;
  const bool changed = sampling.edits != nullptr || !params.greedy();
  int32_t likeliest = row.best().token;
  if (changed) row.copy_to(scratch.values);
  if (sampling.edits != nullptr) likeliest = likeliest_after(*sampling.edits, scratch.values, likeliest);
  SampledToken result{likeliest, {}};
  if (!params.greedy()) {
    const TokenNoise noise(sampling.seed, sampling.choice, sampling.position);
    result.token = choose_token(scratch.values, likeliest, params, noise, scratch.choose);
  }
  if (!params.logprobs) return result;
  const LogprobsMode mode = sampling.logprobs_mode;
  const bool as_logits = mode == LogprobsMode::kRawLogits || mode == LogprobsMode::kProcessedLogits;
  const LogitsRow::Values wanted{*params.logprobs, params.logprob_token_ids, as_logits};
  if (changed && processed(mode)) {
    if (!params.greedy()) keep_choosable(scratch.values, likeliest, params, scratch.choose);
    result.logprobs = LogitsRow(scratch.values).values(result.token, wanted);
  } else {
    result.logprobs = row.values(result.token, wanted);
  }
  return result;
}

}  // namespace

void sample(OpContext& context, const Tensor& logits, std::span<const SamplingRow> rows, std::span<SampledToken> out) {
  QUIRE_CHECK(static_cast<int64_t>(rows.size()) == logits.rows() && out.size() == rows.size());
  const std::vector<ops::RowStatistics> statistics = all_statistics(context, logits);
  std::vector<size_t> remaining;  // rows for which the largest logit is not all there is to say
  for (size_t i = 0; i < rows.size(); ++i) {
    const SamplingParams& params = *rows[i].params;
    if (params.greedy() && !params.logprobs && rows[i].edits == nullptr && LogitsRow::usable(statistics[i])) {
      out[i] = {statistics[i].best.token, {}};
    } else {
      remaining.push_back(i);
    }
  }
  for_each_row(context, static_cast<int64_t>(remaining.size()), [&](size_t task) {
    const size_t i = remaining[task];
    out[i] = sample_row(LogitsRow(context, logits, static_cast<int64_t>(i), statistics[i]), rows[i]);
  });
}

void score(OpContext& context, const Tensor& logits, std::span<const int32_t> next_tokens,
           std::span<const int64_t> counts, std::span<SampledToken> out) {
  QUIRE_CHECK(static_cast<int64_t>(next_tokens.size()) == logits.rows());
  QUIRE_CHECK(counts.size() == next_tokens.size() && out.size() == next_tokens.size());
  const std::vector<ops::RowStatistics> statistics = all_statistics(context, logits);
  for_each_row(context, logits.rows(), [&](size_t i) {
    const LogitsRow row(context, logits, static_cast<int64_t>(i), statistics[i]);
    out[i] = {next_tokens[i], row.values(next_tokens[i], {.most_likely = counts[i]})};
  });
}

}  // namespace quire

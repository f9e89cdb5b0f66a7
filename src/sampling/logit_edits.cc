#include "sampling/logit_edits.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace quire {
namespace {

constexpr float kLargestLogit = std::numeric_limits<float>::max();
constexpr float kImpossible = -std::numeric_limits<float>::infinity();

bool has_penalties(const SamplingParams& params) {
  return params.presence_penalty != 0.0 || params.frequency_penalty != 0.0 || params.repetition_penalty != 1.0;
}

}  // namespace

std::unique_ptr<LogitEdits> LogitEdits::create(const SamplingParams& params, std::span<const int32_t> prompt,
                                               std::span<const int32_t> end_token_ids, BadWords bad_words) {
  std::unique_ptr<LogitEdits> edits(new LogitEdits(params, prompt, end_token_ids, std::move(bad_words)));
  return edits->active() ? std::move(edits) : nullptr;
}

LogitEdits::LogitEdits(const SamplingParams& params, std::span<const int32_t> prompt,
                       std::span<const int32_t> end_token_ids, BadWords bad_words)
    : params_(params), penalties_(has_penalties(params)) {
  if (params.min_tokens > 0) {
    end_token_ids_.assign(end_token_ids.begin(), end_token_ids.end());
    end_token_ids_.insert(end_token_ids_.end(), params.stop_token_ids.begin(), params.stop_token_ids.end());
  }
  if (params.allowed_token_ids) {
    allowed_ = *params.allowed_token_ids;
    std::sort(allowed_.begin(), allowed_.end());
    allowed_.erase(std::unique(allowed_.begin(), allowed_.end()), allowed_.end());
  }
  if (bad_words != nullptr && !bad_words->empty()) bad_words_.emplace(std::move(bad_words));
  if (params.repetition_penalty != 1.0) history_.add_prompt(prompt);
  lasting_ = penalties_ || bad_words_ || !allowed_.empty() || !params.logit_bias.empty();
}

void LogitEdits::add_output(int32_t token) {
  ++outputs_;
  if (bad_words_) bad_words_->advance(token);
  if (penalties_) history_.add_output(token);
}

int32_t LogitEdits::apply(std::span<float> row, int32_t likeliest) const {
  const int32_t last_resort = allowed_.empty() ? likeliest : keep_allowed(row);
  if (bad_words_) {
    thread_local std::vector<int32_t> banned;
    banned.clear();
    bad_words_->add_banned(banned);
    for (const int32_t token : banned) row[static_cast<size_t>(token)] = kImpossible;
  }
  if (outputs_ < params_.min_tokens) {
    for (const int32_t token : end_token_ids_) {
      if (static_cast<size_t>(token) < row.size()) row[static_cast<size_t>(token)] = kImpossible;
    }
  }
  for (const auto& [token, bias] : params_.logit_bias) row[static_cast<size_t>(token)] += static_cast<float>(bias);
  if (penalties_) penalize(row);
  return last_resort;
}

/// Makes all but the allowed tokens impossible; the most likely of those.
int32_t LogitEdits::keep_allowed(std::span<float> row) const {
  thread_local std::vector<float> kept;
  kept.clear();
  for (const int32_t token : allowed_) kept.push_back(row[static_cast<size_t>(token)]);
  std::fill(row.begin(), row.end(), kImpossible);
  for (size_t i = 0; i < kept.size(); ++i) row[static_cast<size_t>(allowed_[i])] = kept[i];
  return allowed_[static_cast<size_t>(largest_logit(kept))];
}

void LogitEdits::penalize(std::span<float> row) const {
  // Above 0 as a float too: 0 times an impossible token's -inf would be no number.
  const float repetition = std::max(static_cast<float>(params_.repetition_penalty), std::numeric_limits<float>::min());
  const auto frequency = static_cast<float>(params_.frequency_penalty);
  const auto presence = static_cast<float>(params_.presence_penalty);
  for (const TokenHistory::Entry& entry : history_.entries()) {
    float& logit = row[static_cast<size_t>(entry.token)];
    // Penalties beyond float's range: 0 stays 0, and what grows stays finite.
    if (logit != 0.0f) logit = logit > 0.0f ? std::min(logit / repetition, kLargestLogit) : logit * repetition;
    if (entry.outputs == 0) continue;
    logit -= frequency * static_cast<float>(entry.outputs);
    logit -= presence;
  }
}

int32_t largest_logit(std::span<const float> row) {
  constexpr size_t kLanes = 16;
  std::array<float, kLanes> largest;
  largest.fill(kImpossible);
  size_t token = 0;
  for (; token + kLanes <= row.size(); token += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane)
      largest[lane] = row[token + lane] > largest[lane] ? row[token + lane] : largest[lane];
  }
  float best = kImpossible;
  for (const float value : largest) best = std::max(best, value);
  for (; token < row.size(); ++token) best = row[token] > best ? row[token] : best;
  const auto found = std::find(row.begin(), row.end(), best);
  return found == row.end() ? 0 : static_cast<int32_t>(found - row.begin());
}

}  // namespace quire

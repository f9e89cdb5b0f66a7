// Takes the largest log-weight + Gumbel number. Most tokens are passed over without a logarithm, because a bound on
// their sum is already below the best one; the choice is the same as if all had been computed.
#include "sampling/choose.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace quire {
namespace {

/// The best sum so far; of equal sums the lower token.
class Race {
 public:
  Race(float largest_logit, double temperature, int32_t largest, const TokenNoise& noise)
      : largest_logit_(largest_logit),
        scale_(1.0 / temperature),
        token_(largest),
        score_(TokenNoise::gumbel(noise.bits(largest))) {}

  void enter(int32_t token, float logit, uint32_t bits) {
    const double weight = (static_cast<double>(logit) - largest_logit_) * scale_;
    if (!(weight + TokenNoise::gumbel_bound(bits) >= score_)) return;
    const double score = weight + TokenNoise::gumbel(bits);
    if (score > score_ || (score == score_ && token < token_)) {
      score_ = score;
      token_ = token;
    }
  }
  /// No logit below this can win any more.
  double hopeless() const { return largest_logit_ + (score_ - TokenNoise::kLargestGumbel) / scale_; }
  int32_t winner() const { return token_; }

 private:
  double largest_logit_;
  double scale_;
  int32_t token_;
  double score_;
};

int32_t choose_among_all(std::span<const float> row, Race race, const TokenNoise& noise) {
  double hopeless = race.hopeless();
  for (size_t begin = 0; begin < row.size(); begin += 4) {
    const size_t end = std::min(begin + 4, row.size());
    bool hope = false;
    for (size_t token = begin; token < end; ++token) hope |= row[token] >= hopeless;
    if (!hope) continue;
    const PhiloxCounter bits = noise.block(static_cast<uint32_t>(begin / 4));
    for (size_t token = begin; token < end; ++token)
      race.enter(static_cast<int32_t>(token), row[token], bits[token - begin]);
    hopeless = race.hopeless();
  }
  return race.winner();
}

/// The tokens that min_p, top_k and top_p leave, in scratch.candidates. False where they leave all.
bool collect_kept(std::span<const float> row, int32_t largest, const SamplingParams& params, ChooseScratch& scratch) {
  const bool limit_count = params.top_k > 0 && static_cast<size_t>(params.top_k) < row.size();
  if (!limit_count && params.top_p >= 1.0 && params.min_p <= 0.0) return false;
  const double temperature = effective_temperature(params);
  const float largest_logit = row[static_cast<size_t>(largest)];
  float threshold = std::numeric_limits<float>::lowest();
  if (limit_count) threshold = kth_largest(row, static_cast<size_t>(params.top_k), scratch.values);
  collect_at_least(row, std::max(threshold, std::numeric_limits<float>::lowest()), scratch.candidates);
  if (params.min_p > 0.0) {
    const double least = largest_logit + temperature * std::log(params.min_p);
    std::erase_if(scratch.candidates, [&](const Candidate& candidate) { return candidate.logit < least; });
  }
  if (params.top_p < 1.0) keep_top_p(scratch.candidates, largest_logit, temperature, params.top_p);
  return true;
}

}  // namespace

int32_t choose_token(std::span<const float> row, int32_t largest, const SamplingParams& params, const TokenNoise& noise,
                     ChooseScratch& scratch) {
  // One token is the best one, also where others equal it: top_k 1 means greedy to its users.
  if (params.greedy() || params.top_k == 1) return largest;
  const float largest_logit = row[static_cast<size_t>(largest)];
  if (!std::isfinite(largest_logit)) return largest;  // no token is possible: the answer is defined all the same
  Race race(largest_logit, effective_temperature(params), largest, noise);
  if (!collect_kept(row, largest, params, scratch)) return choose_among_all(row, race, noise);
  for (const Candidate& candidate : scratch.candidates)
    race.enter(candidate.token, candidate.logit, noise.bits(candidate.token));
  return race.winner();
}

void keep_choosable(std::span<float> row, int32_t largest, const SamplingParams& params, ChooseScratch& scratch) {
  const float largest_logit = row[static_cast<size_t>(largest)];
  if (!std::isfinite(largest_logit)) return;
  if (params.top_k == 1) {
    scratch.candidates = {{largest, largest_logit}};
  } else if (!collect_kept(row, largest, params, scratch)) {
    scratch.candidates.clear();
  }
  if (!scratch.candidates.empty()) {
    std::fill(row.begin(), row.end(), -std::numeric_limits<float>::infinity());
    for (const Candidate& candidate : scratch.candidates) row[static_cast<size_t>(candidate.token)] = candidate.logit;
  }
  const auto temperature = static_cast<float>(effective_temperature(params));
  for (float& logit : row) logit /= temperature;
}

}  // namespace quire

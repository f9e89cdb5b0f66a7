#include "sampling/truncation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

namespace quire {
namespace {

/// Distances below the largest logit, in units of the temperature, fall into buckets; what lies beyond the last weighs
/// less than 1e-17 of the largest and has a bucket of its own.
constexpr double kBucketsPerUnit = 16.0;
constexpr int kBuckets = 641;

/// A candidate's place in the order by descending logit, then ascending token.
bool more_likely(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

class Weights {
 public:
  Weights(float largest, double temperature) : largest_(largest), scale_(1.0 / temperature) {}
  double distance(const Candidate& candidate) const {
    return (largest_ - static_cast<double>(candidate.logit)) * scale_;
  }
  double weight(const Candidate& candidate) const { return std::exp(-distance(candidate)); }
  int bucket(const Candidate& candidate) const {
    return static_cast<int>(std::min(distance(candidate) * kBucketsPerUnit, kBuckets - 1.0));
  }

 private:
  double largest_;
  double scale_;
};

}  // namespace

float kth_largest(std::span<const float> row, size_t k, std::vector<float>& scratch) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  scratch.clear();
  float floor = kLowest;
  bool full = false;  // whether k numbers of at least `floor` are at hand
  const auto shrink = [&] {
    std::nth_element(scratch.begin(), scratch.begin() + static_cast<std::ptrdiff_t>(k - 1), scratch.end(),
                     std::greater<>());
    scratch.resize(k);
    floor = scratch[k - 1];
    full = true;
  };
  for (const float value : row) {
    if (!(full ? value > floor : value >= floor)) continue;
    scratch.push_back(value);
    if (scratch.size() >= 2 * k) shrink();
  }
  if (scratch.size() < k) return kLowest;
  if (scratch.size() > k || !full) shrink();
  return floor;
}

void collect_at_least(std::span<const float> row, float threshold, std::vector<Candidate>& out) {
  out.clear();
  for (size_t token = 0; token < row.size(); ++token) {
    if (row[token] >= threshold) out.push_back({static_cast<int32_t>(token), row[token]});
  }
}

void keep_top_p(std::vector<Candidate>& candidates, float largest, double temperature, double top_p) {
  const Weights weights(largest, temperature);
  std::array<double, kBuckets> mass{};
  for (const Candidate& candidate : candidates)
    mass[static_cast<size_t>(weights.bucket(candidate))] += weights.weight(candidate);
  double total = 0.0;
  for (const double part : mass) total += part;

  const double wanted = top_p * total;
  double reached = 0.0;
  int last = 0;
  while (last < kBuckets - 1 && reached + mass[static_cast<size_t>(last)] < wanted)
    reached += mass[static_cast<size_t>(last++)];

  std::vector<Candidate> boundary;  // the bucket in which `wanted` is reached
  for (const Candidate& candidate : candidates) {
    if (weights.bucket(candidate) == last) boundary.push_back(candidate);
  }
  std::sort(boundary.begin(), boundary.end(), more_likely);
  size_t kept = 0;
  for (; kept < boundary.size() && reached < wanted; ++kept) reached += weights.weight(boundary[kept]);
  std::erase_if(candidates, [&](const Candidate& candidate) {
    const int bucket = weights.bucket(candidate);
    return bucket > last || (bucket == last && (kept == 0 || more_likely(boundary[kept - 1], candidate)));
  });
}

}  // namespace quire

#include "engine/step_time_model.h"

#include <algorithm>
#include <cmath>

namespace quire {
namespace {

/// Weight that an observation keeps with each later one: about the last 25 count.
constexpr double kKept = 0.96;
/// Weight of the start: a thousandth of an observation.
constexpr double kStartWeight = 0.001;
/// An error above this multiple of the usual one counts no more than that multiple.
constexpr double kOutlier = 2;
constexpr double kUsualErrorKept = 0.9;
constexpr double kLeastUsualError = 0.02;
/// Coordinate descent over three terms, from the last solution.
constexpr int kSweeps = 40;
/// Chunks are whole multiples of the smallest block of the cache.
constexpr int64_t kChunkStep = 16;

// Terms are scaled to about 1 for an ordinary step.
constexpr double kRows = 8, kContext = 8192, kTokens = 128, kPrefillContext = 131072;

// Before there is a measurement: a small model on few cores, on the slow side.
constexpr std::array<double, 3> kFirstDecodes = {0.02, 0.01, 0.005};
constexpr std::array<double, 3> kFirstPrefills = {0.0, 0.1, 0.01};

std::array<double, 3> decode_terms(const StepLoad& load) {
  return {1, static_cast<double>(load.decode_rows) / kRows, static_cast<double>(load.decode_context) / kContext};
}

std::array<double, 3> prefill_terms(const StepLoad& load) {
  return {1, static_cast<double>(load.prefill_tokens) / kTokens, load.prefill_context / kPrefillContext};
}

}  // namespace

void StepLoad::add_prefill(int64_t tokens, int64_t start) {
  prefill_tokens += tokens;
  const auto count = static_cast<double>(tokens);
  prefill_context += count * (static_cast<double>(start) + (count + 1) / 2);
}

template <int kTerms>
double FadingFit<kTerms>::predict(const Terms& terms) const {
  double sum = 0;
  for (int i = 0; i < kTerms; ++i) sum += coefficients_[i] * terms[i];
  return sum;
}

template <int kTerms>
void FadingFit<kTerms>::observe(const Terms& terms, double value) {
  // Relative to what was expected, so that slow steps do not count less than quick ones; not to far too little, lest one
  // observation outweigh those to come.
  const double expected = predict(terms);
  const double scale = std::max(expected, value / 2);
  const double error = std::abs(expected - value) / scale;
  const double bound = kOutlier * usual_error_;
  const double weight = (error > bound ? bound / error : 1) / (scale * scale);
  // A change of the machine's speed raises the usual error step by step, until the new times count in full.
  usual_error_ = std::max(kLeastUsualError, kUsualErrorKept * usual_error_ +
                                                (1 - kUsualErrorKept) * std::min(error, 2 * bound));
  for (int i = 0; i < kTerms; ++i) {
    targets_[i] = kKept * targets_[i] + weight * terms[i] * value;
    for (int j = 0; j < kTerms; ++j) products_[i][j] = kKept * products_[i][j] + weight * terms[i] * terms[j];
  }
  solve();
}

/// Minimizes the weighted squares and the distance from the start, over coefficients of 0 and more.
template <int kTerms>
void FadingFit<kTerms>::solve() {
  double trace = 0;
  for (int i = 0; i < kTerms; ++i) trace += products_[i][i];
  const double start_weight = kStartWeight * (1 - kKept) * trace;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (int i = 0; i < kTerms; ++i) {
      double rest = targets_[i] + start_weight * start_[i];
      for (int j = 0; j < kTerms; ++j) rest -= j == i ? 0 : products_[i][j] * coefficients_[j];
      const double curvature = products_[i][i] + start_weight;
      if (curvature > 0) coefficients_[i] = std::max(0.0, rest / curvature);
    }
  }
}

template class FadingFit<3>;

StepTimeModel::StepTimeModel() : decodes_(kFirstDecodes), prefills_(kFirstPrefills) {}

double StepTimeModel::decode_seconds(const StepLoad& load) const {
  return load.decode_rows > 0 ? decodes_.predict(decode_terms(load)) : 0;
}

double StepTimeModel::prefill_seconds(const StepLoad& load) const {
  return load.prefill_tokens > 0 ? prefills_.predict(prefill_terms(load)) : 0;
}

double StepTimeModel::predict(const StepLoad& load) const { return decode_seconds(load) + prefill_seconds(load); }

void StepTimeModel::observe(const StepLoad& load, double seconds) {
  if (!(seconds > 0) || !std::isfinite(seconds)) return;
  if (load.prefill_tokens == 0) {
    if (load.decode_rows > 0) decodes_.observe(decode_terms(load), seconds);
    return;
  }
  // What the decodes took of it is only estimated: a share remains for the prefill in any case.
  constexpr double kLeastShare = 0.1;
  prefills_.observe(prefill_terms(load), std::max(seconds - decode_seconds(load), kLeastShare * seconds));
}

int64_t StepTimeModel::prefill_tokens_within(double seconds, const StepLoad& decodes, int64_t start,
                                             int64_t most) const {
  const auto fits = [&](int64_t steps) {
    StepLoad load = decodes;
    load.add_prefill(steps * kChunkStep, start);
    return predict(load) <= seconds;
  };
  int64_t low = 0, high = most / kChunkStep;  // the time grows with the tokens
  while (low < high) {
    const int64_t middle = (low + high + 1) / 2;
    if (fits(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low * kChunkStep;
}

}  // namespace quire

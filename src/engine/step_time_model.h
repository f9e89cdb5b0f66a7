// How long a step will take, learnt from the steps before: what --max-num-batched-tokens auto plans by.
#pragma once

#include <array>
#include <cstdint>

namespace quire {

/// What a step computes, as far as it costs time.
struct StepLoad {
  int64_t decode_rows = 0;
  int64_t decode_context = 0;  ///< tokens that the decoding rows attend to, together
  int64_t prefill_tokens = 0;
  double prefill_context = 0;  ///< tokens that the prefill tokens attend to, together

  /// A chunk of `tokens` after `start` computed tokens: token i attends to start + i + 1.
  void add_prefill(int64_t tokens, int64_t start);
};

/// A linear fit with coefficients that are not negative, to observations that come one by one. Errors count relative to
/// the expected value; one that is far above the usual error counts less (weights of Huber, 1964), and old observations
/// fade. Starts from given coefficients, which a little weight keeps where nothing was observed.
template <int kTerms>
class FadingFit {
 public:
  using Terms = std::array<double, kTerms>;

  explicit FadingFit(const Terms& start) : start_(start), coefficients_(start) {}

  void observe(const Terms& terms, double value);
  double predict(const Terms& terms) const;
  const Terms& coefficients() const { return coefficients_; }

 private:
  void solve();

  Terms start_, coefficients_;
  std::array<Terms, kTerms> products_{};  ///< weighted sums of terms[i] * terms[j]
  Terms targets_{};                       ///< weighted sums of terms[i] * value
  double usual_error_ = 1;                ///< mean relative error of late
};

/// Time of a step: that of its decodes, fitted to steps without prefill, plus that of its prefill. Apart, because long
/// stretches of decoding must not fade what is known of prefill. One engine thread's.
class StepTimeModel {
 public:
  StepTimeModel();

  /// `seconds` above 0; anything else is passed over.
  void observe(const StepLoad& load, double seconds);
  double predict(const StepLoad& load) const;

  /// Most prefill tokens after `start` computed ones that, beside `decodes`, keep a step within `seconds`; 0 or more, a
  /// multiple of 16, at most `most`.
  int64_t prefill_tokens_within(double seconds, const StepLoad& decodes, int64_t start, int64_t most) const;

 private:
  double decode_seconds(const StepLoad& load) const;
  double prefill_seconds(const StepLoad& load) const;

  FadingFit<3> decodes_;   ///< of one step, of a row, of a row's context
  FadingFit<3> prefills_;  ///< of having any, of a token, of its context
};

}  // namespace quire

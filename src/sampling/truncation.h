// Which tokens of a row top_k and top_p leave, without sorting the vocabulary.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace quire {

struct Candidate {
  int32_t token = 0;
  float logit = 0.0f;
};

/// The k-th largest number of `row` (NaN counts as absent), or -inf where there are fewer. k >= 1. `scratch` is
/// overwritten.
float kth_largest(std::span<const float> row, size_t k, std::vector<float>& scratch);

/// Tokens of `row` with a logit of at least `threshold`, in ascending order of token. NaN is never among them.
void collect_at_least(std::span<const float> row, float threshold, std::vector<Candidate>& out);

/// Leaves the shortest run of most likely candidates (of equal ones the lower token first) whose probability reaches
/// `top_p`; at least one stays. Probabilities are the softmax of logit / temperature over the candidates. `largest` is
/// the largest logit. Order is kept.
void keep_top_p(std::vector<Candidate>& candidates, float largest, double temperature, double top_p);

}  // namespace quire

// Prompts that a seed determines, on every machine and with every standard library.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quire::cli {

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators).
class RandomSource {
 public:
  explicit RandomSource(uint64_t seed) : state_(seed) {}
  uint64_t next();
  /// In [low, high].
  int64_t between(int64_t low, int64_t high);
  /// In [0, 1).
  double uniform();
  /// Exponential with mean 1.
  double exponential();
  /// Gamma with this shape and mean 1 (Marsaglia and Tsang, 2000).
  double gamma(double shape);

 private:
  double normal();
  uint64_t state_;
};

struct PromptShape {
  int64_t input_len = 1024;  ///< tokens beside the prefix
  int64_t output_len = 128;
  int64_t prefix_len = 0;  ///< tokens that all prompts begin with
  double range_ratio = 0;  ///< lengths are drawn from [len * (1 - ratio), len * (1 + ratio)]
  int64_t lowest_id = 0;   ///< ids are drawn from [lowest_id, highest_id]
  int64_t highest_id = 0;
};

struct RandomPrompt {
  std::vector<int32_t> ids;
  int64_t output_len = 0;
};

std::vector<RandomPrompt> random_prompts(int64_t count, const PromptShape& shape, uint64_t seed);

/// Common English words of about one token each, chosen by the prompt's ids: for endpoints that take text only.
std::string words_for(const RandomPrompt& prompt);

}  // namespace quire::cli

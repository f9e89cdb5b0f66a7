// One Gumbel number for each token of the vocabulary, a function of (seed, choice, position, token) alone. Adding it to
// a token's log-weight and taking the largest sum samples from the weights' distribution (Gumbel-max, the same law as
// vLLM's exponential race).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "sampling/philox.h"

namespace quire {

class TokenNoise {
 public:
  TokenNoise(uint64_t seed, int32_t choice, int64_t position)
      : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
        choice_(static_cast<uint32_t>(choice)),
        position_(static_cast<uint32_t>(position)) {}

  /// The random bits of tokens 4 * block .. 4 * block + 3.
  PhiloxCounter block(uint32_t block) const { return philox4x32_10({block, position_, choice_, 0}, key_); }

  uint32_t bits(int32_t token) const {
    return block(static_cast<uint32_t>(token) / 4)[static_cast<uint32_t>(token) % 4];
  }

  /// The Gumbel number of the bits: -log(-log(u)) with u = 1 - (bits + 1/2) / 2^32, taken so that small tails keep
  /// their precision.
  static double gumbel(uint32_t bits) { return -std::log(-std::log1p(-(static_cast<double>(bits) + 0.5) * 0x1p-32)); }

  /// At least gumbel(bits), without a logarithm: -log(-log(1 - v)) <= -log(v), and v's leading zeros bound its
  /// logarithm.
  static double gumbel_bound(uint32_t bits) { return (std::countl_zero(bits) + 1) * 0.6931471805599454; }

  /// At least every gumbel number there is.
  static constexpr double kLargestGumbel = 33 * 0.6931471805599454;

 private:
  PhiloxKey key_;
  uint32_t choice_;
  uint32_t position_;
};

}  // namespace quire

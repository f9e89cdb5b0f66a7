// Rows of logits for the tests of sampling.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace quire {

/// Normally distributed logits; with `ties` whole numbers, so that many are equal.
inline std::vector<float> random_row(size_t size, uint32_t seed, float spread, bool ties = false) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> row(size);
  for (float& value : row) value = ties ? std::round(normal(generator)) : normal(generator);
  return row;
}

}  // namespace quire

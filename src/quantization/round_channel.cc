#include "quantization/round_channel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tensor/convert.h"

namespace quire {
namespace {

constexpr float kLargestHalf = 65504.0f;
/// Shares of the range that are left out at both ends.
constexpr std::array kTrims = {0.0f, 0.03f, 0.06f, 0.1f};

struct Int4Group {
  std::array<uint8_t, ops::kQuantGroup> quants{};
  uint16_t scale = 0;
  uint16_t minimum = 0;
};

/// To nearest even, for |value| < 2^22: 1.5 * 2^23 leaves no bits for a fraction. A call of the library would take
/// most of a load.
float nearest(float value) { return (value + 12582912.0f) - 12582912.0f; }

float as_half(float value) { return float16_to_float(float_to_float16(value)); }

/// Values at `scale` steps from `minimum`; gives the squared error.
float round_group(std::span<const float> values, float scale, float minimum, Int4Group& group) {
  const float steps = scale > 0 ? 1.0f / scale : 0.0f;
  float error = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const float q = std::clamp(nearest((values[i] - minimum) * steps), 0.0f, 15.0f);
    const float off = values[i] - (scale * q + minimum);
    error += off * off;
    group.quants[i] = static_cast<uint8_t>(q);
  }
  group.scale = float_to_float16(scale);
  group.minimum = float_to_float16(minimum);
  return error;
}

Int4Group int4_group(std::span<const float> values) {
  const auto [low, high] = std::ranges::minmax(values);
  const float range = high - low;
  Int4Group best;
  float sum = 0;
  for (const float value : values) sum += value * 0.0f;
  if (!(sum == 0.0f) || range > 15 * kLargestHalf || std::abs(low) > kLargestHalf) {  // not to be told: NaN
    best.scale = best.minimum = float_to_float16(std::numeric_limits<float>::quiet_NaN());
    return best;
  }
  float least = std::numeric_limits<float>::infinity();
  for (const float trim : kTrims) {
    Int4Group group;
    const float minimum = as_half(low + trim * range);
    const float error = round_group(values, as_half((1 - 2 * trim) * range / 15.0f), minimum, group);
    if (error < least) {
      least = error;
      best = group;
    }
  }
  return best;
}

}  // namespace

ops::QuantizedChannel round_to_int8(std::span<const float> weights) {
  const auto count = static_cast<int64_t>(weights.size());
  ops::QuantizedChannel channel = ops::QuantizedChannel::zero(ops::QuantFormat::kInt8, count);
  float largest = 0;
  float poison = 0;
  for (const float weight : weights) {
    largest = std::max(largest, std::abs(weight));
    poison += weight * 0.0f;
  }
  std::ranges::fill(channel.quants, uint8_t{128});
  channel.scale = poison == 0.0f ? largest / 127.0f : std::numeric_limits<float>::quiet_NaN();
  if (!(channel.scale > 1e-37f)) return channel;
  const float factor = 127.0f / largest;
  for (size_t i = 0; i < weights.size(); ++i) {
    channel.quants[i] = static_cast<uint8_t>(static_cast<int>(nearest(weights[i] * factor)) + 128);
  }
  return channel;
}

ops::QuantizedChannel round_to_int4(std::span<const float> weights) {
  const auto count = static_cast<int64_t>(weights.size());
  ops::QuantizedChannel channel = ops::QuantizedChannel::zero(ops::QuantFormat::kQ4Min, count);
  for (size_t begin = 0, g = 0; begin < weights.size(); begin += ops::kQuantGroup, ++g) {
    const size_t size = std::min<size_t>(ops::kQuantGroup, weights.size() - begin);
    const Int4Group group = int4_group(weights.subspan(begin, size));
    std::copy_n(group.quants.begin(), size, channel.quants.begin() + static_cast<std::ptrdiff_t>(begin));
    channel.scales[g] = group.scale;
    channel.minimums[g] = group.minimum;
  }
  return channel;
}

}  // namespace quire

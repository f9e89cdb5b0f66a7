// Channels of compressed weights into panels and back (the layout: kernels/quantized.h).
#include <cstring>

#include "base/check.h"
#include "ops/cpu/kernels/quantized.h"
#include "ops/quantized_linear.h"
#include "tensor/convert.h"

namespace quire::ops {
namespace {

bool has_supers(QuantFormat format) { return cpu::quant_super_bytes(format) > 0; }
bool has_nibbles(QuantFormat format) { return format != QuantFormat::kInt8 && format != QuantFormat::kQ8; }
bool has_minimums(QuantFormat format) { return format == QuantFormat::kQ4Min || format == QuantFormat::kQ4K; }

/// One channel's places in a panel. kStore: from the plain channel into the panel, else the other way.
template <bool kStore>
class ChannelCopy {
 public:
  using Channel = std::conditional_t<kStore, const QuantizedChannel, QuantizedChannel>;
  ChannelCopy(Channel& channel, const QuantizedMatrix& matrix, int64_t index)
      : channel_(channel),
        format_(matrix.format),
        groups_(cpu::quant_groups(matrix.in_features)),
        panel_(matrix.panels.row<uint8_t>(index / QuantizedMatrix::kPanelWidth)),
        lane_(index % QuantizedMatrix::kPanelWidth) {}

  void run() {
    for (int64_t g = 0; g < groups_; ++g) {
      uint8_t* const group = panel_ + cpu::quant_group_offset(format_, g);
      if (has_supers(format_) && g % kSuperGroups == 0) {
        uint8_t* const super = group - cpu::quant_super_bytes(format_);
        const auto index = static_cast<size_t>(g / kSuperGroups);
        copy(super + lane_ * 2, channel_.scales[index]);
        if (has_minimums(format_)) copy(super + 32 + lane_ * 2, channel_.minimums[index]);
      }
      copy_quants(group, g);
      copy_scales(group, static_cast<size_t>(g));
    }
    if (format_ == QuantFormat::kInt8) {
      copy(panel_ + groups_ * cpu::quant_group_bytes(format_) + lane_ * 4, channel_.scale);
    }
  }

 private:
  template <typename T>
  static void copy(uint8_t* place, T& value) {
    if constexpr (kStore) {
      std::memcpy(place, &value, sizeof(T));
    } else {
      std::memcpy(&value, place, sizeof(T));
    }
  }

  void copy_quants(uint8_t* group, int64_t g) {
    auto* const quants = channel_.quants.data() + g * kQuantGroup;
    if (!has_nibbles(format_)) {
      for (int64_t quad = 0; quad < kQuantGroup / 4; ++quad) {
        uint8_t* const place = group + quad * 64 + lane_ * 4;
        if constexpr (kStore) {
          std::memcpy(place, quants + quad * 4, 4);
        } else {
          std::memcpy(quants + quad * 4, place, 4);
        }
      }
      return;
    }
    for (int64_t k = 0; k < kQuantGroup / 2; ++k) {
      uint8_t& both = group[k / 4 * 64 + lane_ * 4 + k % 4];
      if constexpr (kStore) {
        both = static_cast<uint8_t>((quants[k] & 15) | (quants[k + 16] & 15) << 4);
      } else {
        quants[k] = both & 15;
        quants[k + 16] = both >> 4;
      }
    }
    if (format_ == QuantFormat::kQ6K) copy_pairs(group + 256, quants);
  }

  /// Bits 4 and 5 of the values: four quads share 64 bytes, each two bits of them.
  template <typename Quants>
  void copy_pairs(uint8_t* pairs, Quants* quants) {
    for (int64_t half = 0; half < 2; ++half) {
      for (int64_t k = 0; k < 4; ++k) {
        uint8_t& four = pairs[half * 64 + lane_ * 4 + k];
        if constexpr (kStore) four = 0;
        for (int64_t quad = 0; quad < 4; ++quad) {
          auto& value = quants[half * 16 + quad * 4 + k];
          if constexpr (kStore) {
            four = static_cast<uint8_t>(four | (value >> 4 & 3) << (quad * 2));
          } else {
            value = static_cast<uint8_t>(value | (four >> (quad * 2) & 3) << 4);
          }
        }
      }
    }
  }

  void copy_scales(uint8_t* group, size_t g) {
    uint8_t* const scales = group + (has_nibbles(format_) ? 256 : 512);
    switch (format_) {
      case QuantFormat::kInt8:
        return;
      case QuantFormat::kQ8:
      case QuantFormat::kQ4:
        return copy(scales + lane_ * 2, channel_.scales[g]);
      case QuantFormat::kQ4Min:
        copy(scales + lane_ * 2, channel_.scales[g]);
        return copy(scales + 32 + lane_ * 2, channel_.minimums[g]);
      case QuantFormat::kQ4K:
        copy(scales + lane_, channel_.sub_scales[g]);
        return copy(scales + 16 + lane_, channel_.sub_minimums[g]);
      case QuantFormat::kQ6K:
        copy(scales + 128 + lane_, channel_.sub_scales[2 * g]);
        return copy(scales + 144 + lane_, channel_.sub_scales[2 * g + 1]);
    }
  }

  Channel& channel_;
  QuantFormat format_;
  int64_t groups_;
  uint8_t* panel_;
  int64_t lane_;
};

}  // namespace

QuantizedChannel QuantizedChannel::zero(QuantFormat format, int64_t in_features) {
  const auto groups = static_cast<size_t>(cpu::quant_groups(in_features));
  const size_t supers = (groups + kSuperGroups - 1) / kSuperGroups;
  QuantizedChannel channel;
  channel.quants.resize(groups * kQuantGroup);
  if (format != QuantFormat::kInt8) channel.scales.resize(has_supers(format) ? supers : groups);
  if (has_minimums(format)) channel.minimums.resize(channel.scales.size());
  if (format == QuantFormat::kQ4K) channel.sub_scales.resize(groups);
  if (format == QuantFormat::kQ4K) channel.sub_minimums.resize(groups);
  if (format == QuantFormat::kQ6K) channel.sub_scales.resize(2 * groups);
  return channel;
}

void pack_channel(const QuantizedChannel& channel, int64_t index, QuantizedMatrix& matrix) {
  QUIRE_CHECK(index >= 0 && index < matrix.out_features);
  QUIRE_CHECK(std::ssize(channel.quants) == cpu::quant_groups(matrix.in_features) * kQuantGroup);
  ChannelCopy<true>(channel, matrix, index).run();
}

QuantizedChannel unpack_channel(const QuantizedMatrix& matrix, int64_t index) {
  QUIRE_CHECK(index >= 0 && index < matrix.out_features);
  QuantizedChannel channel = QuantizedChannel::zero(matrix.format, matrix.in_features);
  ChannelCopy<false>(channel, matrix, index).run();
  return channel;
}

void dequantize_channel(const QuantizedChannel& channel, QuantFormat format, int64_t count, float* out) {
  for (int64_t k = 0; k < count; ++k) {
    const auto group = static_cast<size_t>(k / kQuantGroup);
    const size_t super = group / kSuperGroups;
    const auto q = static_cast<float>(channel.quants[static_cast<size_t>(k)]);
    switch (format) {
      case QuantFormat::kInt8:
        out[k] = channel.scale * (q - 128.0f);
        break;
      case QuantFormat::kQ8:
        out[k] = float16_to_float(channel.scales[group]) * (q - 128.0f);
        break;
      case QuantFormat::kQ4:
        out[k] = float16_to_float(channel.scales[group]) * (q - 8.0f);
        break;
      case QuantFormat::kQ4Min:
        out[k] = float16_to_float(channel.scales[group]) * q + float16_to_float(channel.minimums[group]);
        break;
      case QuantFormat::kQ4K:
        out[k] = float16_to_float(channel.scales[super]) * static_cast<float>(channel.sub_scales[group]) * q +
                 float16_to_float(channel.minimums[super]) * static_cast<float>(channel.sub_minimums[group]);
        break;
      case QuantFormat::kQ6K: {
        const auto scale = static_cast<int8_t>(channel.sub_scales[static_cast<size_t>(k / 16)]);
        out[k] = float16_to_float(channel.scales[super]) * static_cast<float>(scale) * (q - 32.0f);
        break;
      }
    }
  }
}

}  // namespace quire::ops

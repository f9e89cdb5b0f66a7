// The block layouts are ggml's, as checkpoint/gguf_dequantize.cc reads them.
#include "quantization/gguf_channel.h"

#include <cstring>

#include "base/check.h"
#include "checkpoint/gguf_dequantize.h"

namespace quire {
namespace {

using ops::kQuantGroup;
using ops::kSuperGroups;
using ops::QuantFormat;
using ops::QuantizedChannel;

uint16_t half_at(const uint8_t* block) {
  uint16_t bits = 0;
  std::memcpy(&bits, block, sizeof(bits));
  return bits;
}

/// 16 bytes: low nibbles are values 0 to 15, high ones 16 to 31.
void read_nibbles(const uint8_t* nibbles, uint8_t* quants) {
  for (int i = 0; i < 16; ++i) {
    quants[i] = nibbles[i] & 15;
    quants[i + 16] = nibbles[i] >> 4;
  }
}

// Each takes block `index` of the channel.

void q4_0(const uint8_t* block, size_t index, QuantizedChannel& channel) {
  channel.scales[index] = half_at(block);
  read_nibbles(block + 2, channel.quants.data() + index * kQuantGroup);
}

void q4_1(const uint8_t* block, size_t index, QuantizedChannel& channel) {
  channel.scales[index] = half_at(block);
  channel.minimums[index] = half_at(block + 2);
  read_nibbles(block + 4, channel.quants.data() + index * kQuantGroup);
}

void q8_0(const uint8_t* block, size_t index, QuantizedChannel& channel) {
  channel.scales[index] = half_at(block);
  uint8_t* const quants = channel.quants.data() + index * kQuantGroup;
  for (int i = 0; i < kQuantGroup; ++i) quants[i] = static_cast<uint8_t>(block[2 + i] ^ 0x80);  // plus 128
}

// The minimum is subtracted there: its sign is turned.
void q4_k(const uint8_t* block, size_t index, QuantizedChannel& channel) {
  channel.scales[index] = half_at(block);
  channel.minimums[index] = half_at(block + 2) ^ 0x8000;
  for (size_t sub = 0; sub < kSuperGroups; ++sub) {
    const size_t group = index * kSuperGroups + sub;
    const PackedScale factors = packed_scale(block + 4, static_cast<int>(sub));
    channel.sub_scales[group] = factors.scale;
    channel.sub_minimums[group] = factors.minimum;
    const uint8_t* const nibbles = block + 16 + sub / 2 * 32;
    for (size_t i = 0; i < kQuantGroup; ++i) {
      channel.quants[group * kQuantGroup + i] = nibbles[i] >> (sub % 2 * 4) & 15;
    }
  }
}

void q6_k(const uint8_t* block, size_t index, QuantizedChannel& channel) {
  channel.scales[index] = half_at(block + 208);
  std::memcpy(channel.sub_scales.data() + index * 16, block + 192, 16);
  for (size_t group = 0; group < kSuperGroups; ++group) {
    const uint8_t* const low = block + group / 4 * 64 + group % 2 * 32;
    const uint8_t* const high = block + 128 + group / 4 * 32;
    uint8_t* const quants = channel.quants.data() + (index * kSuperGroups + group) * kQuantGroup;
    for (size_t i = 0; i < kQuantGroup; ++i) {
      quants[i] = static_cast<uint8_t>((low[i] >> (group % 4 / 2 * 4) & 15) | (high[i] >> (group % 4 * 2) & 3) << 4);
    }
  }
}

using ReadBlock = void (*)(const uint8_t*, size_t, QuantizedChannel&);
struct Reader {
  QuantFormat format;
  ReadBlock read;
};

std::optional<Reader> reader_of(const GgmlTypeInfo& type) {
  switch (static_cast<GgmlType>(type.number)) {
    case GgmlType::kQ4_0:
      return Reader{QuantFormat::kQ4, q4_0};
    case GgmlType::kQ4_1:
      return Reader{QuantFormat::kQ4Min, q4_1};
    case GgmlType::kQ8_0:
      return Reader{QuantFormat::kQ8, q8_0};
    case GgmlType::kQ4_K:
      return Reader{QuantFormat::kQ4K, q4_k};
    case GgmlType::kQ6_K:
      return Reader{QuantFormat::kQ6K, q6_k};
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<ops::QuantFormat> format_of(const GgmlTypeInfo& type) {
  const std::optional<Reader> reader = reader_of(type);
  if (!reader) return std::nullopt;
  return reader->format;
}

ops::QuantizedChannel read_channel(const GgmlTypeInfo& type, const std::byte* row, int64_t first, int64_t count) {
  const std::optional<Reader> reader = reader_of(type);
  QUIRE_CHECK(reader && first % type.block_size == 0 && count % type.block_size == 0);
  QuantizedChannel channel = QuantizedChannel::zero(reader->format, count);
  const auto* block = reinterpret_cast<const uint8_t*>(row) + first / type.block_size * type.block_bytes;
  for (int64_t i = 0; i < count / type.block_size; ++i, block += type.block_bytes) {
    reader->read(block, static_cast<size_t>(i), channel);
  }
  return channel;
}

}  // namespace quire

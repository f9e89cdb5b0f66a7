// A cursor over bytes that never reads past their end.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace quire {

static_assert(std::endian::native == std::endian::little, "checkpoint files are little-endian and read as they are");

/// Reads little-endian values one after the other. The first read that does not fit sets failed(), and from then on
/// every read gives zero.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  size_t position() const { return position_; }
  size_t remaining() const { return bytes_.size() - position_; }
  bool failed() const { return failed_; }

  template <typename T>
  T read() {
    T value{};
    const auto bytes = take(sizeof(T));
    if (bytes.size() == sizeof(T)) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }

  /// The next `count` bytes, or none.
  std::span<const std::byte> take(uint64_t count) {
    if (failed_ || count > remaining()) {
      failed_ = true;
      return {};
    }
    const auto bytes = bytes_.subspan(position_, static_cast<size_t>(count));
    position_ += static_cast<size_t>(count);
    return bytes;
  }

  /// The next `count` bytes as text, or an empty one.
  std::string_view take_string(uint64_t count) {
    const auto bytes = take(count);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

 private:
  std::span<const std::byte> bytes_;
  size_t position_ = 0;
  bool failed_ = false;
};

}  // namespace quire

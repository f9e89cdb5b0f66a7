#include "checkpoint/gguf_file.h"

#include <fstream>
#include <limits>
#include <utility>

#include "checkpoint/gguf_parser.h"
#include "checkpoint/printable.h"

namespace quire {
namespace {

std::optional<int64_t> to_integer(GgufValueType type, ByteReader& reader) {
  switch (type) {
    case GgufValueType::kUint8:
      return reader.read<uint8_t>();
    case GgufValueType::kInt8:
      return reader.read<int8_t>();
    case GgufValueType::kUint16:
      return reader.read<uint16_t>();
    case GgufValueType::kInt16:
      return reader.read<int16_t>();
    case GgufValueType::kUint32:
      return reader.read<uint32_t>();
    case GgufValueType::kInt32:
      return reader.read<int32_t>();
    case GgufValueType::kInt64:
      return reader.read<int64_t>();
    case GgufValueType::kUint64: {
      const auto value = reader.read<uint64_t>();
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

std::optional<double> to_double(GgufValueType type, ByteReader& reader) {
  if (type == GgufValueType::kFloat32) return reader.read<float>();
  if (type == GgufValueType::kFloat64) return reader.read<double>();
  const auto integer = to_integer(type, reader);
  return integer ? std::optional<double>(static_cast<double>(*integer)) : std::nullopt;
}

/// One element as T, or nothing when the stored type or value does not allow it.
template <typename T>
std::optional<T> convert(GgufValueType type, ByteReader& reader) {
  if constexpr (std::is_same_v<T, int64_t>) {
    return to_integer(type, reader);
  } else if constexpr (std::is_same_v<T, double>) {
    return to_double(type, reader);
  } else if constexpr (std::is_same_v<T, bool>) {
    if (type != GgufValueType::kBool) return std::nullopt;
    return reader.read<uint8_t>() != 0;
  } else {
    if (type != GgufValueType::kString) return std::nullopt;
    return reader.take_string(reader.read<uint64_t>());
  }
}

template <typename T>
constexpr const char* kExpected = "a string";
template <>
constexpr const char* kExpected<int64_t> = "an integer that fits 64 bits";
template <>
constexpr const char* kExpected<double> = "a number";
template <>
constexpr const char* kExpected<bool> = "true or false";

template <typename T>
struct Element {
  using Type = T;
  static constexpr bool kIsArray = false;
};
template <typename T>
struct Element<std::vector<T>> {
  using Type = T;
  static constexpr bool kIsArray = true;
};

}  // namespace

Result<GgufFile> GgufFile::open(const std::filesystem::path& path) {
  QUIRE_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::open(path));
  QUIRE_ASSIGN_OR_RETURN(GgufFile file, parse(mapped.bytes(), path.string()));
  file.file_ = std::move(mapped);
  return file;
}

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes, std::string description) {
  GgufFile file;
  file.bytes_ = bytes;
  file.description_ = std::move(description);
  QUIRE_RETURN_IF_ERROR(Parser(file).parse());
  return file;
}

bool GgufFile::has_magic(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  std::ifstream stream(path, std::ios::binary);
  char magic[4] = {};
  return stream.read(magic, sizeof(magic)) && std::string_view(magic, sizeof(magic)) == "GGUF";
}

std::vector<std::string_view> GgufFile::keys() const {
  std::vector<std::string_view> keys;
  keys.reserve(values_.size());
  for (const Value& value : values_) keys.push_back(value.key);
  return keys;
}

template <typename T>
Result<std::optional<T>> GgufFile::find(std::string_view key) const {
  using Item = typename Element<T>::Type;
  const auto found = index_.find(key);
  if (found == index_.end()) return std::optional<T>();
  const Value& value = values_[found->second];
  const auto wrong_type = [&] {
    return invalid_argument(description_ + ": metadata " + quote_name(key) + " must be " +
                            (Element<T>::kIsArray ? "a list, each entry " : "") + kExpected<Item>);
  };
  if (value.is_array != Element<T>::kIsArray) return wrong_type();
  ByteReader reader(value.payload);
  if constexpr (Element<T>::kIsArray) {
    T items;
    items.reserve(value.count);
    for (uint64_t i = 0; i < value.count; ++i) {
      auto item = convert<Item>(value.type, reader);
      if (!item) return wrong_type();
      items.push_back(*item);
    }
    return std::optional<T>(std::move(items));
  } else {
    auto item = convert<Item>(value.type, reader);
    if (!item) return wrong_type();
    return item;
  }
}

template <typename T>
Result<T> GgufFile::get(std::string_view key) const {
  QUIRE_ASSIGN_OR_RETURN(auto value, find<T>(key));
  if (!value) return not_found(description_ + " lacks metadata " + quote_name(key));
  return *std::move(value);
}

#define QUIRE_INSTANTIATE(T)                                   \
  template Result<T> GgufFile::get<T>(std::string_view) const; \
  template Result<std::optional<T>> GgufFile::find<T>(std::string_view) const;
QUIRE_INSTANTIATE(std::string_view)
QUIRE_INSTANTIATE(int64_t)
QUIRE_INSTANTIATE(double)
QUIRE_INSTANTIATE(bool)
QUIRE_INSTANTIATE(std::vector<std::string_view>)
QUIRE_INSTANTIATE(std::vector<int64_t>)
QUIRE_INSTANTIATE(std::vector<double>)
#undef QUIRE_INSTANTIATE

}  // namespace quire

#include "checkpoint/safetensors_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "checkpoint/byte_reader.h"
#include "checkpoint/checked_math.h"
#include "checkpoint/json_document.h"
#include "checkpoint/printable.h"
#include "checkpoint/wrong_file.h"

namespace quire {
namespace {

using nlohmann::json;

// The limit of the reference implementation.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr size_t kMaxDimensions = 8;

/// Bits of one element; 0 for a type that the format does not know.
uint64_t dtype_bits(const std::string& name) {
  constexpr std::pair<const char*, uint64_t> kBits[] = {
      {"F64", 64},        {"I64", 64},    {"U64", 64},    {"C64", 64},    {"F32", 32},    {"I32", 32},
      {"U32", 32},        {"F16", 16},    {"BF16", 16},   {"I16", 16},    {"U16", 16},    {"I8", 8},
      {"U8", 8},          {"BOOL", 8},    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
      {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},
  };
  const auto* found = std::ranges::find_if(kBits, [&](const auto& entry) { return name == entry.first; });
  return found == std::end(kBits) ? 0 : found->second;
}

/// Reads one file's header into entries.
class HeaderReader {
 public:
  HeaderReader(std::span<const std::byte> bytes, const std::string& description)
      : bytes_(bytes), description_(description) {}

  Result<std::vector<SafetensorsEntry>> read() {
    QUIRE_ASSIGN_OR_RETURN(const std::string_view text, header_text());
    QUIRE_ASSIGN_OR_RETURN(const json header, parse_json_object(text, "the header of " + description_));
    std::vector<SafetensorsEntry> entries;
    for (const auto& [name, fields] : header.items()) {
      if (name == "__metadata__") continue;
      QUIRE_ASSIGN_OR_RETURN(SafetensorsEntry entry, read_entry(name, fields));
      entries.push_back(std::move(entry));
    }
    std::ranges::sort(entries, [](const auto& a, const auto& b) {
      return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
    });
    QUIRE_RETURN_IF_ERROR(check_layout(entries));
    return entries;
  }

 private:
  Error malformed(const std::string& what) const {
    return invalid_argument(description_ + " is not a valid safetensors file: " + what);
  }

  Result<std::string_view> header_text() {
    if (const auto hint = wrong_file_hint(bytes_)) return invalid_argument(description_ + " " + *hint);
    ByteReader reader(bytes_);
    const auto header_bytes = reader.read<uint64_t>();
    if (reader.failed()) return malformed("it has only " + std::to_string(bytes_.size()) + " bytes");
    if (header_bytes > kMaxHeaderBytes) {
      return malformed("its header claims " + std::to_string(header_bytes) + " bytes");
    }
    const std::string_view text = reader.take_string(header_bytes);
    if (reader.failed()) {
      return malformed("its header needs " + std::to_string(header_bytes) + " bytes, the file has " +
                       std::to_string(bytes_.size()) + "; it may not be fully downloaded, get it again");
    }
    data_begin_ = reader.position();
    return text;
  }

  Result<SafetensorsEntry> read_entry(const std::string& name, const json& fields) const {
    const auto bad = [&](const std::string& what) { return malformed("tensor " + quote_name(name) + " " + what); };
    if (!fields.is_object()) return bad("is not described by an object");
    const auto dtype = fields.find("dtype");
    const auto shape = fields.find("shape");
    const auto offsets = fields.find("data_offsets");
    if (dtype == fields.end() || !dtype->is_string()) return bad("has no dtype");
    if (shape == fields.end() || !shape->is_array() || shape->size() > kMaxDimensions) return bad("has no valid shape");
    if (offsets == fields.end() || !offsets->is_array() || offsets->size() != 2 ||
        !(*offsets)[0].is_number_unsigned() || !(*offsets)[1].is_number_unsigned()) {
      return bad("has no valid data_offsets");
    }
    SafetensorsEntry entry{name, dtype->get<std::string>(), {}, 0, 0};
    for (const json& dimension : *shape) {
      if (!dimension.is_number_unsigned() || dimension.get<uint64_t>() > INT64_MAX) return bad("has no valid shape");
      entry.shape.push_back(dimension.get<int64_t>());
    }
    QUIRE_RETURN_IF_ERROR(place(entry, (*offsets)[0].get<uint64_t>(), (*offsets)[1].get<uint64_t>()));
    return entry;
  }

  Status place(SafetensorsEntry& entry, uint64_t begin, uint64_t end) const {
    const auto bad = [&](const std::string& what) {
      return malformed("tensor " + quote_name(entry.name) + " " + what);
    };
    const uint64_t bits = dtype_bits(entry.dtype);
    if (bits == 0) return bad("has unknown dtype " + quote_name(entry.dtype));
    const auto elements = checked_elements(entry.shape);
    const auto total_bits = elements ? checked_multiply(static_cast<uint64_t>(*elements), bits) : std::nullopt;
    if (!total_bits || *total_bits % 8 != 0) return bad("has a shape whose size overflows or is no whole byte");
    if (begin > end || end - begin != *total_bits / 8)
      return bad("has data_offsets that do not match its shape and dtype");
    const auto file_end = checked_add(data_begin_, end);
    if (!file_end) return bad("has data_offsets that overflow");
    if (*file_end > bytes_.size()) {
      return bad("needs the file to have " + std::to_string(*file_end) + " bytes, it has " +
                 std::to_string(bytes_.size()) + "; it may not be fully downloaded, get it again");
    }
    entry.offset = data_begin_ + begin;
    entry.bytes = end - begin;
    return {};
  }

  /// The format asks that tensors fill the data without overlap and without holes.
  Status check_layout(const std::vector<SafetensorsEntry>& entries) const {
    size_t expected = data_begin_;
    for (const SafetensorsEntry& entry : entries) {
      if (entry.offset < expected) return malformed("tensor " + quote_name(entry.name) + " overlaps the one before it");
      if (entry.offset > expected) return malformed("there is a hole before tensor " + quote_name(entry.name));
      expected = entry.offset + entry.bytes;
    }
    if (expected != bytes_.size()) {
      return malformed("it has " + std::to_string(bytes_.size()) + " bytes, its header describes " +
                       std::to_string(expected));
    }
    return {};
  }

  std::span<const std::byte> bytes_;
  const std::string& description_;
  uint64_t data_begin_ = 0;
};

}  // namespace

Result<SafetensorsFile> SafetensorsFile::from(Result<MappedFile> opened) {
  QUIRE_ASSIGN_OR_RETURN(MappedFile mapped, std::move(opened));
  QUIRE_ASSIGN_OR_RETURN(SafetensorsFile file, parse(mapped.bytes(), mapped.path().string()));
  file.file_ = std::move(mapped);
  return file;
}

Result<SafetensorsFile> SafetensorsFile::parse(std::span<const std::byte> bytes, std::string description) {
  SafetensorsFile file;
  file.bytes_ = bytes;
  file.description_ = std::move(description);
  QUIRE_ASSIGN_OR_RETURN(file.entries_, HeaderReader(bytes, file.description_).read());
  return file;
}

}  // namespace quire

// The container of a GGUF file, versions 2 and 3, little-endian: typed metadata and the table of tensors.
// The format: github.com/ggml-org/ggml, docs/gguf.md. Every length and offset is checked against the real file before
// use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "checkpoint/ggml_type.h"

namespace quire {

/// Types of metadata values, numbered as in the file.
enum class GgufValueType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

/// One tensor, under the file's own name ("blk.0.attn_q.weight").
struct GgufTensor {
  std::string_view name;
  std::vector<int64_t> shape;  ///< row-major: outermost first (the file lists the innermost first)
  const GgmlTypeInfo* type = nullptr;
  size_t offset = 0;  ///< from the file's begin
  size_t bytes = 0;
};

/// An opened GGUF file. String views it hands out stay valid while it (or what it was moved to) lives. Safe to read
/// from many threads.
class GgufFile {
 public:
  /// Maps and checks the file. Not a GGUF, big-endian, cut short or inconsistent: refused, naming the file and what is
  /// wrong.
  static Result<GgufFile> open(const std::filesystem::path& path);
  /// The same from bytes that outlive the GgufFile; `description` stands for the path in messages.
  static Result<GgufFile> parse(std::span<const std::byte> bytes, std::string description);

  /// Whether the file begins with GGUF's magic number.
  static bool has_magic(const std::filesystem::path& path);

  bool contains(std::string_view key) const { return index_.contains(key); }
  /// All metadata keys in file order.
  std::vector<std::string_view> keys() const;

  /// The value of `key`; kNotFound when absent, kInvalidArgument when it has another type or does not fit. T is one of:
  /// std::string_view; int64_t (any integer type); double (any float or integer type); bool;
  /// std::vector<std::string_view>; std::vector<int64_t>; std::vector<double>.
  template <typename T>
  Result<T> get(std::string_view key) const;
  /// As get(), but an absent key is an empty optional.
  template <typename T>
  Result<std::optional<T>> find(std::string_view key) const;

  std::span<const GgufTensor> tensors() const { return tensors_; }
  /// The tensor's bytes as stored.
  std::span<const std::byte> data(const GgufTensor& tensor) const {
    return bytes_.subspan(tensor.offset, tensor.bytes);
  }
  /// The tensor's pages may leave memory.
  void release(const GgufTensor& tensor) const { file_.release(tensor.offset, tensor.bytes); }

  const std::string& description() const { return description_; }

 private:
  struct Value {
    std::string_view key;
    GgufValueType type = GgufValueType::kUint8;  ///< of the value, or of the array's elements
    bool is_array = false;
    uint64_t count = 1;                  ///< elements
    std::span<const std::byte> payload;  ///< the elements as stored
  };
  class Parser;

  MappedFile file_;
  std::span<const std::byte> bytes_;
  std::string description_;
  std::vector<Value> values_;
  std::unordered_map<std::string_view, size_t> index_;  ///< key -> values_
  std::vector<GgufTensor> tensors_;
};

}  // namespace quire

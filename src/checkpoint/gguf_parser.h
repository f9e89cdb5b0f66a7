// Walks a GGUF file once, checking every length and offset, and fills a GgufFile.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "checkpoint/byte_reader.h"
#include "checkpoint/gguf_file.h"

namespace quire {

/// Bytes of one metadata value of a fixed-size type; 0 for strings, arrays and unknown types.
size_t gguf_value_size(GgufValueType type);

class GgufFile::Parser {
 public:
  explicit Parser(GgufFile& file) : file_(file), reader_(file.bytes_) {}

  Status parse();

 private:
  Status parse_preamble();
  Status parse_value();
  std::span<const std::byte> take_strings(uint64_t count);
  Status parse_tensor();
  Status measure_tensor(GgufTensor& tensor) const;
  Status locate_tensors();
  Status check_overlaps() const;

  Error malformed(const std::string& what) const;
  Error cut_short(const std::string& where) const;

  GgufFile& file_;
  ByteReader reader_;
  uint64_t tensor_count_ = 0;
  uint64_t value_count_ = 0;
};

}  // namespace quire

// GGUF files made by the tests, metadata and tensors as given.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/gguf_file.h"
#include "checkpoint/test_files.h"

namespace quire::test {

class GgufBuilder {
 public:
  GgufBuilder& text(const std::string& key, const std::string& value) {
    return add(key, GgufValueType::kString, gguf_string(value));
  }
  GgufBuilder& integer(const std::string& key, uint32_t value) { return add(key, GgufValueType::kUint32, raw(value)); }
  GgufBuilder& number(const std::string& key, float value) { return add(key, GgufValueType::kFloat32, raw(value)); }
  GgufBuilder& boolean(const std::string& key, bool value) {
    return add(key, GgufValueType::kBool, raw(static_cast<uint8_t>(value)));
  }
  GgufBuilder& integers(const std::string& key, const std::vector<int32_t>& values) {
    std::string payload = raw(static_cast<uint32_t>(GgufValueType::kInt32)) + raw<uint64_t>(values.size());
    for (const int32_t value : values) payload += raw(value);
    return add(key, GgufValueType::kArray, payload);
  }
  /// `shape` is row-major, `data` as stored.
  GgufBuilder& tensor(const std::string& name, const std::vector<int64_t>& shape, GgmlType type,
                      const std::string& data) {
    entries_ += gguf_string(name) + raw(static_cast<uint32_t>(shape.size()));
    for (auto dimension = shape.rbegin(); dimension != shape.rend(); ++dimension) entries_ += raw(*dimension);
    entries_ += raw(static_cast<uint32_t>(type)) + raw<uint64_t>(data_.size());
    data_ += data;
    pad(data_);
    ++tensors_;
    return *this;
  }
  GgufBuilder& floats(const std::string& name, const std::vector<int64_t>& shape, const std::vector<float>& values) {
    std::string data;
    for (const float value : values) data += raw(value);
    return tensor(name, shape, GgmlType::kF32, data);
  }
  std::string build() const {
    std::string file = gguf_preamble(tensors_, values_) + metadata_ + entries_;
    pad(file);
    return file + data_;
  }

 private:
  static void pad(std::string& bytes) { bytes.resize((bytes.size() + 31) / 32 * 32, '\0'); }
  GgufBuilder& add(const std::string& key, GgufValueType type, const std::string& payload) {
    metadata_ += gguf_string(key) + raw(static_cast<uint32_t>(type)) + payload;
    ++values_;
    return *this;
  }

  std::string metadata_, entries_, data_;
  uint64_t values_ = 0, tensors_ = 0;
};

}  // namespace quire::test

// Small checkpoints made by the tests in a temporary folder.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

namespace quire::test {

/// A folder that is removed when the test ends.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "quire-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(const std::string& name, const std::string& content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

template <typename T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

/// A safetensors file: header length, header, data.
inline std::string safetensors(const std::string& header, const std::string& data) {
  return raw<uint64_t>(header.size()) + header + data;
}

inline std::string gguf_string(const std::string& text) { return raw<uint64_t>(text.size()) + text; }

/// GGUF's preamble with version 3.
inline std::string gguf_preamble(uint64_t tensors, uint64_t values) {
  return "GGUF" + raw<uint32_t>(3) + raw(tensors) + raw(values);
}

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace quire::test

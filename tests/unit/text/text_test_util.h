// Files and data of the text tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/chat_template.h"
#include "text/text_assets.h"
#include "text/tokenizer.h"

namespace quire::text_test {

using Json = nlohmann::ordered_json;

inline std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(QUIRE_TESTS_DIR) / "golden" / name;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

inline Json read_json(const std::filesystem::path& path) { return Json::parse(read_file(path)); }

inline std::unique_ptr<Tokenizer> make_tokenizer(const std::string& json) {
  auto tokenizer = Tokenizer::from_json(json);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  return std::move(tokenizer).value();
}

inline std::unique_ptr<ChatTemplate> make_template(const std::string& source) {
  auto compiled = ChatTemplate::compile(source);
  EXPECT_TRUE(compiled.ok()) << compiled.error().message << "\n" << source;
  return std::move(compiled).value();
}

inline Json user_says(const std::string& content) {
  return {{"messages", Json::array({{{"role", "user"}, {"content", content}}})}, {"add_generation_prompt", true}};
}

/// The demo model's path, or empty: tests of it then skip.
inline std::string demo_model() {
  const char* path = std::getenv("QUIRE_DEMO_MODEL");
  return path == nullptr ? "" : path;
}

/// A folder that is removed with this object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "quire-text-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace quire::text_test

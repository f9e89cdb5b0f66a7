#include "api/adapter_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace quire {
namespace {

namespace fs = std::filesystem;

class AdapterFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    base_ = fs::temp_directory_path() / ("quire-folder-" + std::to_string(getpid()));
    fs::remove_all(base_);
    add(base_ / "root" / "one");
    add(base_ / "root" / "two");
    add(base_ / "outside" / "secret");
  }
  void TearDown() override { fs::remove_all(base_); }
  static void add(const fs::path& folder) {
    fs::create_directories(folder);
    std::ofstream(folder / "adapter_config.json") << "{}";
    std::ofstream(folder / "adapter_model.safetensors") << "x";
  }

  fs::path base_;
};

std::vector<std::string> names(const AdapterFolder& folder) {
  std::vector<std::string> names;
  for (const auto& [name, path] : folder.list()) {
    EXPECT_EQ(folder.find(name), path);
    names.push_back(name);
  }
  return names;
}

TEST_F(AdapterFolderTest, FindsWhatIsThereAndWhatComesLater) {
  const AdapterFolder folder(base_ / "root");
  EXPECT_TRUE(folder.judge().ok());
  EXPECT_EQ(names(folder), (std::vector<std::string>{"one", "two"}));
  EXPECT_FALSE(folder.find("three"));
  add(base_ / "root" / "three");
  EXPECT_TRUE(folder.find("three"));
  fs::remove_all(base_ / "root" / "one");
  EXPECT_EQ(names(folder), (std::vector<std::string>{"three", "two"}));
}

TEST_F(AdapterFolderTest, NamesThatLeadElsewhereAreNotFound) {
  const AdapterFolder folder(base_ / "root");
  add(base_ / "root" / ".hidden");
  add(base_ / "root" / "a" / "b");
  add(base_ / "root" / "line\nbreak");
  for (const std::string& name :
       {std::string(".."), std::string("../outside/secret"), std::string("a/b"), std::string("one/"),
        std::string("/one"), std::string("one\\x"), std::string(".hidden"), std::string("."), std::string(),
        std::string("one\0", 4), (base_ / "outside" / "secret").string(), std::string(5000, 'x'), std::string("x..y"),
        std::string("line\nbreak")}) {
    EXPECT_FALSE(folder.find(name)) << name;
  }
}

TEST_F(AdapterFolderTest, LinksThatLeaveTheFolderAreNotFound) {
  const AdapterFolder folder(base_ / "root");
  fs::create_directory_symlink(base_ / "outside" / "secret", base_ / "root" / "link");
  fs::create_directory_symlink(base_ / "root" / "one", base_ / "root" / "inside");
  add(base_ / "root" / "weights");
  fs::remove(base_ / "root" / "weights" / "adapter_model.safetensors");
  fs::create_symlink(base_ / "outside" / "secret" / "adapter_model.safetensors",
                     base_ / "root" / "weights" / "adapter_model.safetensors");
  EXPECT_FALSE(folder.find("link"));
  EXPECT_FALSE(folder.find("weights"));
  EXPECT_TRUE(folder.find("inside"));
  EXPECT_EQ(names(folder), (std::vector<std::string>{"inside", "one", "two"}));
}

TEST_F(AdapterFolderTest, NoFolder) {
  EXPECT_TRUE(AdapterFolder("").judge().ok());
  EXPECT_FALSE(AdapterFolder("").find("one"));
  EXPECT_TRUE(AdapterFolder("").list().empty());
  const Status missing = AdapterFolder(base_ / "nowhere").judge();
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("nowhere"), std::string::npos);
}

}  // namespace
}  // namespace quire

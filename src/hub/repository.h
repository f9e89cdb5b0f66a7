// A repository of a hub at one revision, with its files in Hugging Face's cache.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "hub/file_choice.h"
#include "hub/hub_options.h"

struct quire_hf_repository;

namespace quire {

class Repository {
 public:
  /// Told the bytes of the file that are there; false ends the transfer, which a later one continues.
  using Progress = std::function<bool(int64_t bytes)>;

  /// Asks the hub, or the cache where the hub must not be asked or is not reached.
  static Result<Repository> open(const std::string& id, const HubOptions& options);

  const std::vector<HubFile>& files() const { return files_; }
  const std::string& commit() const { return commit_; }
  /// The folder that gets the files.
  const std::filesystem::path& folder() const { return folder_; }
  /// Why the cache was taken without asking the hub; empty where the hub was asked.
  const std::string& note() const { return note_; }
  /// Whether the user wanted it so (HF_HUB_OFFLINE).
  bool offline() const { return offline_; }
  /// The repository in messages.
  std::string where() const;

  /// The path of a file, downloaded first where it is missing.
  Result<std::filesystem::path> fetch(const std::string& name, const Progress& progress) const;
  /// Makes this commit the one that the cache gives without the hub.
  Status settle() const;

 private:
  struct Deleter {
    void operator()(quire_hf_repository* handle) const;
  };

  Repository() = default;

  std::unique_ptr<quire_hf_repository, Deleter> handle_;
  std::string id_, commit_, note_;
  bool offline_ = false;
  std::filesystem::path folder_;
  std::vector<HubFile> files_;
};

}  // namespace quire

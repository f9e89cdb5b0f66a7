#include "hub/repository.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "quire_hf.h"
#include "text/hf_handles.h"

namespace quire {
namespace {

quire_hf_text text_of(const std::string& text) { return {text.data(), text.size()}; }

bool report(void* context, uint64_t bytes) {
  try {
    const auto& progress = *static_cast<const Repository::Progress*>(context);
    return !progress || progress(static_cast<int64_t>(bytes));
  } catch (...) {
    return false;  // no exception may pass through Rust
  }
}

}  // namespace

void Repository::Deleter::operator()(quire_hf_repository* handle) const { quire_hf_repository_free(handle); }

Result<Repository> Repository::open(const std::string& id, const HubOptions& options) {
  const quire_hf_hub_options given = {text_of(id), text_of(options.revision), text_of(options.download_dir),
                                      text_of(options.token)};
  Repository repository;
  repository.id_ = id;
  quire_hf_repository* handle = nullptr;
  HfBytes error, description;
  if (const int code = quire_hf_repository_open(&given, &handle, error.out()); code != QUIRE_HF_OK) {
    return hf_error(code, error);
  }
  repository.handle_.reset(handle);
  if (const int code = quire_hf_repository_describe(handle, description.out(), error.out()); code != QUIRE_HF_OK) {
    return hf_error(code, error);
  }
  const auto object = nlohmann::json::parse(description.str());
  repository.commit_ = object.at("commit").get<std::string>();
  repository.folder_ = object.at("folder").get<std::string>();
  repository.note_ = object.at("note").get<std::string>();
  repository.offline_ = object.at("offline").get<bool>();
  for (const auto& file : object.at("files")) {
    HubFile& added = repository.files_.emplace_back(HubFile{file.at("name").get<std::string>(), std::nullopt});
    if (!file.at("size").is_null()) added.bytes = file.at("size").get<int64_t>();
  }
  return repository;
}

std::string Repository::where() const {
  return note_.empty() ? id_ : fmt::format("{} in the cache {} ({})", id_, folder_.string(), note_);
}

Result<std::filesystem::path> Repository::fetch(const std::string& name, const Progress& progress) const {
  HfBytes path, error;
  Progress listener = progress;
  const int code =
      quire_hf_repository_fetch(handle_.get(), name.data(), name.size(), report, &listener, path.out(), error.out());
  if (code != QUIRE_HF_OK) return hf_error(code, error);
  return std::filesystem::path(path.str());
}

Status Repository::settle() const {
  HfBytes error;
  const int code = quire_hf_repository_settle(handle_.get(), error.out());
  if (code != QUIRE_HF_OK) return hf_error(code, error);
  return {};
}

}  // namespace quire

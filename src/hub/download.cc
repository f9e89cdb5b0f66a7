#include "hub/download.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "text/text_files.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxIndex = 256u << 20;

Result<FileChoice> choose(const Repository& repository, const HubId& id, HubContent content) {
  const std::string where = repository.where();
  if (content == HubContent::kTokenizer) return choose_tokenizer_files(repository.files(), id.variant, where);
  if (content == HubContent::kAdapter && !id.variant.empty()) {
    return invalid_argument(fmt::format("{}:{}: only models have variants", id.repository, id.variant));
  }
  if (content == HubContent::kAdapter) return choose_adapter_files(repository.files(), where);
  auto model = choose_model_files(repository.files(), id.variant, where);
  if (model.ok() || content == HubContent::kModel || !id.variant.empty()) return model;
  auto adapter = choose_adapter_files(repository.files(), where);
  return adapter.ok() ? adapter : model;
}

/// Adds the weights files that the index lists, which is fetched for that.
Status follow_index(const Repository& repository, FileChoice& choice) {
  if (choice.index.empty()) return {};
  QUIRE_ASSIGN_OR_RETURN(const fs::path path, repository.fetch(choice.index, {}));
  QUIRE_ASSIGN_OR_RETURN(const auto text, read_text_if_exists(path, kMaxIndex));
  if (!text) return not_found(fmt::format("{} has vanished", path.string()));
  QUIRE_ASSIGN_OR_RETURN(const auto shards, files_of_index(*text, repository.files(), repository.where()));
  choice.files.insert(choice.files.end(), shards.begin(), shards.end());
  return {};
}

/// Sizes by name; what has none listed counts as nothing.
std::map<std::string, int64_t> sizes_of(const Repository& repository) {
  std::map<std::string, int64_t> sizes;
  for (const HubFile& file : repository.files()) sizes[file.name] = file.bytes.value_or(0);
  return sizes;
}

bool is_missing(const Repository& repository, const std::string& name) {
  std::error_code error;
  return !fs::exists(repository.folder() / name, error);
}

}  // namespace

Result<Download> download(const HubId& id, HubContent content, const HubOptions& options,
                          const DownloadProgress& progress) {
  QUIRE_ASSIGN_OR_RETURN(const Repository repository, Repository::open(id.repository, options));
  if (!repository.note().empty() && !repository.offline()) {
    spdlog::warn("{}: {}; the cached commit {} is used", id.repository, repository.note(), repository.commit());
  }
  QUIRE_ASSIGN_OR_RETURN(FileChoice choice, choose(repository, id, content));
  QUIRE_RETURN_IF_ERROR(follow_index(repository, choice));

  const std::map<std::string, int64_t> sizes = sizes_of(repository);
  Download result{repository.folder() / choice.single, repository.commit(), std::ssize(choice.files), 0};
  int64_t missing = 0, missing_bytes = 0, done = 0;
  for (const std::string& name : choice.files) {
    result.bytes += sizes.at(name);
    if (!is_missing(repository, name)) continue;
    ++missing;
    missing_bytes += sizes.at(name);
  }
  if (missing > 0) {
    spdlog::info("Downloading {} at {}: {} of {} files, {:.1f} MB", id.repository, repository.commit(), missing,
                 result.files, static_cast<double>(missing_bytes) / 1e6);
  }
  for (const std::string& name : choice.files) {
    const auto report = [&](int64_t bytes) { return !progress || progress(done + bytes, result.bytes); };
    QUIRE_ASSIGN_OR_RETURN(const fs::path path, repository.fetch(name, report));
    done += sizes.at(name);
  }
  QUIRE_RETURN_IF_ERROR(repository.settle());
  if (choice.single.empty()) result.path = repository.folder();
  return result;
}

Result<std::string> find_or_download(const std::string& path, HubContent content, const HubOptions& options,
                                     const DownloadProgress& progress) {
  std::error_code error;
  if (fs::exists(path, error)) return path;
  const std::optional<HubId> id = parse_hub_id(path);
  if (!id) return path;
  auto downloaded = download(*id, content, options, progress);
  const auto is = [&](ErrorKind kind) { return !downloaded.ok() && downloaded.error().kind == kind; };
  if (is(ErrorKind::kNotFound) || is(ErrorKind::kUnavailable)) {
    return not_found(fmt::format("There is no path {} here, and no hub gave it: {}", path, downloaded.error().message),
                     downloaded.error().param);
  }
  if (!downloaded.ok()) return downloaded.error();
  return downloaded->path.string();
}

}  // namespace quire

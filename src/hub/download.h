// A model, tokenizer or adapter by path or by hub id: on return it lies on this machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"
#include "hub/hub_id.h"
#include "hub/repository.h"

namespace quire {

enum class HubContent { kModel, kTokenizer, kAdapter, kModelOrAdapter };

/// Told the bytes that are there of all that are wanted; false ends the download, which a later one continues.
using DownloadProgress = std::function<bool(int64_t done, int64_t total)>;

struct Download {
  std::filesystem::path path;  ///< the snapshot's folder, or the .gguf file in it
  std::string commit;
  int64_t files = 0, bytes = 0;  ///< of the content, whether they came now or were there
};

/// Brings what is missing. Warns where the hub was not reached and the cache is used instead.
Result<Download> download(const HubId& id, HubContent content, const HubOptions& options,
                          const DownloadProgress& progress = {});

/// `path` itself where something lies there, or where it is no hub id; else the path of the download.
Result<std::string> find_or_download(const std::string& path, HubContent content, const HubOptions& options,
                                     const DownloadProgress& progress = {});

}  // namespace quire

// A merged checkpoint as a folder in Hugging Face's layout.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "base/result.h"
#include "base/thread_pool.h"
#include "checkpoint/weight_source.h"
#include "lora/adapter_files.h"

namespace quire {

struct MergeOptions {
  int64_t max_shard_bytes = 5'000'000'000;
  /// Told of the bytes written so far and in all; an Error from it ends the work.
  std::function<Status(int64_t done, int64_t total)> progress;
};

struct MergeSummary {
  int64_t tensors = 0;
  int64_t changed_tensors = 0;
  int64_t bytes = 0;
  int64_t shards = 0;
  bool unties_head = false;
};

/// Writes the base with the adapter in it to `output`, which must not exist: weights in the base's types as safetensors
/// shards, config.json, and the base folder's other files but for weights and README. All is written to a folder beside
/// it, renamed at the end and removed on failure. A GGUF base is refused.
Result<MergeSummary> merge_adapter(const Checkpoint& base, const AdapterFiles& files,
                                   const std::filesystem::path& output, ThreadPool& pool, const MergeOptions& options);

}  // namespace quire

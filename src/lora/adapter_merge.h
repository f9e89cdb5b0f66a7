// A base checkpoint's weights with an adapter's changes in them: W' = g * (W + scale * B A) and what else it replaces.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "checkpoint/safetensors_writer.h"
#include "lora/adapter_fit.h"

namespace quire {

/// One tensor of the merged checkpoint.
struct MergedTensor {
  SafetensorsTensor out;                  ///< of the base tensor's type and shape
  const WeightInfo* base = nullptr;       ///< where its values come from
  const AdapterModule* module = nullptr;  ///< what changes them; nullptr: they are copied
  bool is_bias = false;
};

/// All tensors of a merged checkpoint. The checkpoint's weights and the adapter must outlive it.
struct MergePlan {
  std::vector<MergedTensor> tensors;
  /// The base ties its head to the embedding and the merged ones differ: config.json must say so.
  bool unties_head = false;
};

/// Checks that the adapter fits and lays out the result. Refused by name is what no checkpoint of the base's family can
/// hold: a bias where the base has none.
Result<MergePlan> plan_merge(const AdapterFiles& files, const AdapterBase& base);

/// Gets the bytes of a tensor one piece after the other; an Error from it ends the work.
using ByteSink = std::function<Status(std::span<const std::byte> bytes)>;

/// Computes a tensor in float32, rounds it once to the base's type and hands it on. A value that the type cannot hold
/// is an Error that names the tensor.
Status write_merged_tensor(const MergedTensor& tensor, const AdapterFiles& files, const AdapterBase& base,
                           ThreadPool& pool, const ByteSink& sink);

}  // namespace quire

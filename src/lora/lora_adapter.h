// An adapter's weights as the layers of one rank use them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/huge_page_arena.h"
#include "base/result.h"
#include "layers/adaptable_layers.h"
#include "lora/adapter_files.h"
#include "lora/lora_layer.h"

namespace quire {

/// Numbers of a loaded adapter, for logs and metrics.
struct AdapterSummary {
  int64_t max_rank = 0;
  int64_t modules = 0;  ///< modules of the base model that it changes
  int64_t bytes = 0;    ///< that its packed weights take on this rank
};

/// What an adapter is fitted to: a loaded model's layers, the names that checkpoints have for them, and the type that
/// weights are stored in.
struct LoraTarget {
  const AdaptableLayers& layers;
  std::span<const StackedName> stacked;
  DType storage = DType::kFloat32;
};

/// Immutable; its memory, its own size and no more, goes with the last reference.
class LoraAdapter {
 public:
  /// Packs the modules' tensors for the layers of `target`. Runs on the calling thread alone and reads the base
  /// weights, so it may run while steps do. Every tensor is used, or the Error names it with its shape and what the
  /// model asks for; `name` says whose they are.
  static Result<std::shared_ptr<const LoraAdapter>> create(const std::string& name,
                                                           std::span<const AdapterModule> modules,
                                                           const WeightSource& tensors, const LoraTarget& target);

  /// What it changes of the layer of that index in AdaptableLayers; nullptr for nothing.
  const LoraLayer* layer(size_t index) const { return layers_[index].get(); }
  const AdapterSummary& summary() const { return summary_; }

 private:
  explicit LoraAdapter(bool large) : arena_(large) {}

  HugePageArena arena_;
  std::vector<std::unique_ptr<LoraLayer>> layers_;
  AdapterSummary summary_;
};

}  // namespace quire

// An adapter's weights as the layers of one rank use them.
#pragma once

#include <cstdint>
#include <functional>
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
  /// This rank's place where ranks divide both matrices of an adapter, else a place among one.
  ParallelRank fully_sharded;
};

class LoraLayerBuilder;
struct LoraFit;

/// Where ranks that load the same adapter meet half-way: each brings how it fared so far and its part of some sums, and
/// takes the ranks' sums away, or the Error of the first that has one. A load
/// that ends with an Error before it comes here leaves the meeting to its caller.
using LoraRankMeeting = std::function<Status(const Status& own, std::span<double> sums)>;

/// Immutable; its memory, its own size and no more, goes with the last reference.
class LoraAdapter {
 public:
  /// Packs the modules' tensors for the layers of `target`. Runs on the calling thread alone and reads the base
  /// weights, so it may run while steps do. Every tensor is used, or the Error names it with its shape and what the
  /// model asks for; `name` says whose they are. With several ranks all do this at the same time and `meet`.
  static Result<std::shared_ptr<const LoraAdapter>> create(const std::string& name,
                                                           std::span<const AdapterModule> modules,
                                                           const WeightSource& tensors, const LoraTarget& target,
                                                           const LoraRankMeeting& meet = {});

  /// What it changes of the layer of that index in AdaptableLayers; nullptr for nothing.
  const LoraLayer* layer(size_t index) const { return layers_[index].get(); }
  const AdapterSummary& summary() const { return summary_; }

 private:
  explicit LoraAdapter(bool large) : arena_(large) {}
  /// Builds the layers that `fits` change, as far as that goes without the other ranks.
  Status build(LoraLayerBuilder& builder, std::span<const AdaptableLayer> layers, std::span<const LoraFit> fits);
  void summarize(std::span<const AdapterModule> modules);

  HugePageArena arena_;
  std::vector<std::unique_ptr<LoraLayer>> layers_;
  AdapterSummary summary_;
};

}  // namespace quire

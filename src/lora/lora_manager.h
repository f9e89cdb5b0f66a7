// The adapters of one rank: which are loaded, and the layers' way to them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "lora/lora_adapter.h"
#include "lora/lora_layer_hook.h"

namespace quire {

/// Safe to use from several threads: adapters come and go while steps run. The layers' hooks belong to the thread that
/// runs the steps.
class LoraManager {
 public:
  /// Sets the hooks of all layers of the target, whose layers must outlive it or never run again.
  explicit LoraManager(const LoraTarget& target);
  LoraManager(const LoraManager&) = delete;
  LoraManager& operator=(const LoraManager&) = delete;

  /// Packs an adapter on the calling thread; find() knows it once this has returned. `meet` as LoraAdapter::create has
  /// it.
  Result<AdapterSummary> load(uint64_t id, const AdapterFiles& files, const LoraRankMeeting& meet = {});
  /// Its memory goes with the last step that uses it.
  void remove(uint64_t id);
  /// nullptr for an id that is not loaded.
  std::shared_ptr<const LoraAdapter> find(uint64_t id) const;

 private:
  LoraTarget target_;
  LoraScratch scratch_;
  std::vector<std::unique_ptr<LoraLayerHook>> hooks_;
  std::vector<std::unique_ptr<LoraNormHook>> norm_hooks_;
  mutable std::mutex mutex_;  ///< held for a look at the map, never while packing
  std::unordered_map<uint64_t, std::shared_ptr<const LoraAdapter>> adapters_;
};

}  // namespace quire

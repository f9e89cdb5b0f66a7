#include "lora/lora_manager.h"

#include "base/check.h"

namespace quire {

LoraManager::LoraManager(const LoraTarget& target) : target_(target) {
  const std::span<const AdaptableLayer> layers = target.layers.layers();
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].kind == AdaptableLayer::Kind::kNorm) {
      norm_hooks_.push_back(std::make_unique<LoraNormHook>(i));
      *layers[i].norm_hook = norm_hooks_.back().get();
      continue;
    }
    hooks_.push_back(std::make_unique<LoraLayerHook>(layers[i].kind, i, scratch_));
    *layers[i].hook = hooks_.back().get();
  }
}

Result<AdapterSummary> LoraManager::load(uint64_t id, const AdapterFiles& files, const LoraRankMeeting& meet) {
  QUIRE_CHECK(id != 0);
  QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<const LoraAdapter> adapter,
                         LoraAdapter::create(files.folder().string(), files.modules(), files.tensors(), target_, meet));
  const AdapterSummary summary = adapter->summary();
  const std::lock_guard lock(mutex_);
  const bool added = adapters_.emplace(id, std::move(adapter)).second;
  QUIRE_CHECK(added);
  return summary;
}

void LoraManager::remove(uint64_t id) {
  std::shared_ptr<const LoraAdapter> last;  // freed after the lock
  const std::lock_guard lock(mutex_);
  const auto found = adapters_.find(id);
  if (found == adapters_.end()) return;
  last = std::move(found->second);
  adapters_.erase(found);
}

std::shared_ptr<const LoraAdapter> LoraManager::find(uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = adapters_.find(id);
  return found == adapters_.end() ? nullptr : found->second;
}

}  // namespace quire

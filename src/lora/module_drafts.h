// An adapter's tensors gathered by the module that they belong to, before anything is held against the config.
#pragma once

#include <map>
#include <string>

#include "base/result.h"
#include "checkpoint/weight_source.h"
#include "lora/adapter_files.h"

namespace quire {

/// A module while its tensors are gathered.
struct ModuleDraft {
  AdapterModule module;
  std::string trained_path;  ///< as the trained model names it; patterns of the config match it
  const WeightInfo* embedding_a = nullptr;
  const WeightInfo* embedding_b = nullptr;
};

/// Layer 2 before layer 10: digits compare as numbers.
struct LayerOrder {
  bool operator()(const std::string& a, const std::string& b) const;
};

/// By AdapterModule::path.
using ModuleDrafts = std::map<std::string, ModuleDraft, LayerOrder>;

/// Every tensor at its place. The Error names a tensor whose name no form of LoRA has, that is of a second adapter,
/// that cannot be read, or that stands where another one does.
Result<ModuleDrafts> gather_module_drafts(const WeightSource& tensors);

/// Whether some output head has its own tensor of a kind.
bool head_has(const ModuleDrafts& drafts, const WeightInfo* AdapterModule::*kind);

}  // namespace quire

#include "lora/lora_adapter.h"

#include <algorithm>
#include <map>

#include "lora/adapter_tying.h"
#include "lora/lora_fit.h"
#include "lora/lora_layer_builder.h"

namespace quire {
namespace {

/// Below this an adapter's memory is taken in small pages, so that it is not rounded up to much more.
constexpr size_t kHugePagesFrom = size_t{8} << 20;

size_t stored_bytes(std::span<const LoraFit> fits) {
  size_t bytes = 0;
  for (const LoraFit& fit : fits) {
    const AdapterModule& module = *fit.module;
    for (const WeightInfo* tensor : {module.a, module.b, module.weight, module.token_rows}) {
      if (tensor != nullptr) bytes += tensor->stored_bytes;
    }
  }
  return bytes;
}

/// The head that is tied to the embedding `layer`, or `layers.size()`.
size_t tied_head(std::span<const AdaptableLayer> layers, size_t layer) {
  for (size_t i = 0; i < layers.size(); ++i) {
    if (i != layer && layers[i].weight == layers[layer].weight) return i;
  }
  return layers.size();
}

bool has_tied_head(std::span<const AdaptableLayer> layers) {
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].kind == AdaptableLayer::Kind::kEmbedding && tied_head(layers, i) < layers.size()) return true;
  }
  return false;
}

/// What a tied head takes over from a changed embedding.
LoraLayer head_of(const LoraLayer& embedding) {
  LoraLayer head;
  for (const LoraSlice& slice : embedding.slices) {
    if (!slice.weight) continue;
    LoraSlice whole;
    whole.columns = slice.weight->out_features;
    whole.weight = slice.weight;
    head.slices.push_back(std::move(whole));
  }
  head.tokens = embedding.tokens;
  return head;
}

}  // namespace

Status LoraAdapter::build(LoraLayerBuilder& builder, std::span<const AdaptableLayer> layers,
                          std::span<const LoraFit> fits) {
  std::map<size_t, std::vector<LoraFit>> by_layer;
  for (const LoraFit& fit : fits) by_layer[fit.layer].push_back(fit);
  for (const auto& [layer, own] : by_layer) {
    layers_[layer] = std::make_unique<LoraLayer>();
    QUIRE_RETURN_IF_ERROR(builder.build(layers[layer], own, *layers_[layer]));
    if (!own.front().module->changes_tied_head) continue;
    const size_t head = tied_head(layers, layer);
    if (head < layers.size() && !by_layer.contains(head)) {
      layers_[head] = std::make_unique<LoraLayer>(head_of(*layers_[layer]));
    }
  }
  return {};
}

void LoraAdapter::summarize(std::span<const AdapterModule> modules) {
  for (const AdapterModule& module : modules) {
    summary_.max_rank = std::max(summary_.max_rank, module.rank);
    summary_.modules += module.changes_something() ? 1 : 0;
  }
  summary_.bytes = static_cast<int64_t>(arena_.allocated_bytes());
}

Result<std::shared_ptr<const LoraAdapter>> LoraAdapter::create(const std::string& name,
                                                               std::span<const AdapterModule> modules,
                                                               const WeightSource& tensors, const LoraTarget& target,
                                                               const LoraRankMeeting& meet) {
  const std::span<const AdaptableLayer> layers = target.layers.layers();
  QUIRE_ASSIGN_OR_RETURN(const std::vector<LoraFit> fits, fit_modules(name, modules, target.layers, target.stacked));
  if (!target.layers.is_elsewhere("lm_head")) {
    QUIRE_RETURN_IF_ERROR(check_needs_head(name, modules, has_tied_head(layers)));
  }

  ThreadPool pool({1, false, {}});
  Workspace workspace;
  OpContext context{{}, &pool, &workspace, {}};
  std::shared_ptr<LoraAdapter> adapter(new LoraAdapter(stored_bytes(fits) >= kHugePagesFrom));
  adapter->layers_.resize(layers.size());
  LoraLayerBuilder builder(context, name, tensors, target.storage, adapter->arena_, target.fully_sharded);
  Status built = adapter->build(builder, layers, fits);
  if (meet) built = meet(built, builder.sums());
  QUIRE_RETURN_IF_ERROR(built);
  QUIRE_RETURN_IF_ERROR(builder.finish());
  for (std::unique_ptr<LoraLayer>& layer : adapter->layers_) {
    if (layer == nullptr || layer->changes_something()) continue;
    // A rank without outputs still brings its part of A.
    if (layer->meeting == LoraLayer::Meeting::kNone) layer.reset();
  }
  adapter->summarize(modules);
  return std::shared_ptr<const LoraAdapter>(std::move(adapter));
}

}  // namespace quire

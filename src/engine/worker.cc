#include "engine/worker.h"

#include <utility>

#include "models/registry.h"

namespace quire {

Worker::Worker(ParallelRank place, ThreadPoolOptions threads) : place_(place), pool_(std::move(threads)) {
  context_.pool = &pool_;
  context_.workspace = &workspace_;
}

Status Worker::build(const ModelConfig& config, const WorkerSettings& settings) {
  settings_ = settings;
  QUIRE_ASSIGN_OR_RETURN(const ModelFactory factory, ModelRegistry::instance().find(config.architecture));
  linear_method_ = make_unquantized_linear_method(settings.storage);
  layer_context_ = std::make_unique<LayerContext>(LayerContext{
      context_, arena_, parameters_, adaptable_, *linear_method_, settings.storage, place_, settings.max_positions});
  QUIRE_ASSIGN_OR_RETURN(model_, factory(*layer_context_, config));
  groups_ = group_layers(model_->kv_cache_specs());
  return {};
}

Status Worker::load_weights(const WeightSource& weights, const std::function<void(int64_t)>& progress) {
  QUIRE_RETURN_IF_ERROR(model_->load_weights(weights, progress));
  adapters_ = std::make_unique<LoraManager>(LoraTarget{adaptable_, model_->stacked_names(), settings_.storage});
  return {};
}

int64_t Worker::block_bytes() const {
  int64_t bytes = 0;
  for (const KvCacheGroup& group : groups_) {
    bytes += static_cast<int64_t>(quire::block_bytes(group, settings_.block_size, settings_.kv_cache));
  }
  return bytes;
}

void Worker::allocate_cache(const std::vector<int64_t>& blocks_per_group) {
  kv_cache_ = std::make_unique<KvCacheStorage>(groups_, blocks_per_group, settings_.block_size, settings_.kv_cache);
  runner_ = std::make_unique<ModelRunner>(context_, *model_, *kv_cache_, *adapters_, settings_.block_size);
}

}  // namespace quire

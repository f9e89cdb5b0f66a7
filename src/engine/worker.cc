#include "engine/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "models/registry.h"

namespace quire {

Worker::Worker(RankPlace place, ThreadPoolOptions threads) : place_(place), pool_(std::move(threads)) {
  context_.pool = &pool_;
  context_.workspace = &workspace_;
}

namespace {

std::unique_ptr<LinearMethod> make_linear_method(const WorkerSettings& settings) {
  if (settings.quantization.empty()) return make_unquantized_linear_method(settings.storage);
  if (settings.quantization == "gguf") return make_gguf_linear_method(settings.storage);
  std::unique_ptr<LinearMethod> method = make_rounding_linear_method(settings.quantization, settings.storage);
  QUIRE_CHECK(method != nullptr);
  return method;
}

}  // namespace

Status Worker::build(const ModelConfig& config, const WorkerSettings& settings) {
  settings_ = settings;
  vocab_size_ = config.vocab_size;
  QUIRE_ASSIGN_OR_RETURN(const ModelFactory factory, ModelRegistry::instance().find(config.architecture));
  linear_method_ = make_linear_method(settings);
  const bool rounded = settings.quantization == "int8" || settings.quantization == "int4";
  if (rounded && !settings.quantize_lm_head) table_method_ = make_unquantized_linear_method(settings.storage);
  layer_context_ = std::make_unique<LayerContext>(
      LayerContext{context_, arena_, parameters_, adaptable_, *linear_method_, settings.storage, place_.tensor_parallel,
                   settings.max_positions, place_.stage, settings_.layers_per_stage, table_method_.get()});
  QUIRE_ASSIGN_OR_RETURN(model_, factory(*layer_context_, config));
  if (place_.stage.size > 1 && model_->intermediate_widths().empty()) {
    return unsupported(config.architecture + " cannot be divided into pipeline stages", "pipeline_parallel_size");
  }
  const std::vector<KvCacheSpec> specs = model_->kv_cache_specs();
  const auto usable = [](const KvCacheSpec& spec) { return spec.kv_heads > 0 && spec.k_dim > 0 && spec.v_dim > 0; };
  if (specs.empty() || !std::ranges::all_of(specs, usable)) {
    return internal_error("the model " + config.architecture + " declares no attention layer, or one without heads");
  }
  groups_ = group_layers(specs);
  return {};
}

void Worker::set_all_kv_cache_specs(const std::vector<std::vector<KvCacheSpec>>& stages) {
  std::vector<KvCacheSpec> all;
  int begin = 0;
  int end = 0;
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    if (static_cast<int>(stage) == place_.stage.rank) begin = static_cast<int>(all.size());
    all.insert(all.end(), stages[stage].begin(), stages[stage].end());
    if (static_cast<int>(stage) == place_.stage.rank) end = static_cast<int>(all.size());
  }
  groups_ = group_layers(all);
  for (KvCacheGroup& group : groups_) {
    std::erase_if(group.layers, [&](int layer) { return layer < begin || layer >= end; });
    for (int& layer : group.layers) layer -= begin;
  }
}

namespace {

/// A model of a plugin may throw whatever it likes.
Status load_model_weights(Model& model, const WeightSource& weights, const std::function<void(int64_t)>& progress) {
  try {
    return model.load_weights(weights, progress);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    return internal_error("the model could not load its weights: " + std::string(error.what()));
  } catch (...) {
    return internal_error("the model could not load its weights: it threw something that is no std::exception");
  }
}

}  // namespace

Status Worker::load_weights(const WeightSource& weights, const std::function<void(int64_t)>& progress) {
  QUIRE_RETURN_IF_ERROR(parameters_.ignore_unexpected(settings_.ignore_unexpected_weights));
  QUIRE_RETURN_IF_ERROR(load_model_weights(*model_, weights, progress));
  adapters_ = std::make_unique<LoraManager>(
      LoraTarget{adaptable_, model_->stacked_names(), settings_.lora,
                 settings_.fully_sharded_loras ? place_.tensor_parallel : ParallelRank()});
  return {};
}

std::string Worker::weight_summary() const {
  std::string text = linear_method_->summary();
  if (table_method_ != nullptr) text += fmt::format(", embedding and head {}", table_method_->summary());
  return text;
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
  runner_ = std::make_unique<ModelRunner>(
      context_, *model_, *kv_cache_, *adapters_, settings_.block_size,
      StageLink(context_, place_.stage, place_.tensor_parallel, model_->intermediate_widths(), vocab_size_));
}

Status Worker::execute(const StepPlan& plan, StepResult& result) {
  const auto begin = std::chrono::steady_clock::now();
  const Status status = runner_->run(plan, result);
  step_time_ += std::chrono::steady_clock::now() - begin;
  return status;
}

}  // namespace quire

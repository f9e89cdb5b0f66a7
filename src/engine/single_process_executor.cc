#include "engine/single_process_executor.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/cpu_topology.h"
#include "base/huge_page_arena.h"
#include "engine/model_runner.h"
#include "layers/rotary_embedding.h"
#include "models/registry.h"

namespace quire {

namespace {

/// Without --kv-cache-memory-bytes the cache may take this share of the memory that is still free once weights are
/// loaded. Pages are touched only as they are used, so a small load never holds it.
constexpr double kDefaultCacheShare = 0.5;

/// Everything one rank owns, in the order in which it must be destroyed last to first.
class SingleProcessExecutor final : public Executor {
 public:
  explicit SingleProcessExecutor(int threads) : pool_({threads, true}) {
    context_.pool = &pool_;
    context_.workspace = &workspace_;
  }

  Status load(const ModelConfig& config, const WeightSource& weights, DType storage, int64_t max_positions,
              const std::function<void(int64_t)>& progress) {
    QUIRE_ASSIGN_OR_RETURN(const ModelFactory factory, ModelRegistry::instance().find(config.architecture));
    linear_method_ = make_unquantized_linear_method(storage);
    layer_context_ = std::make_unique<LayerContext>(LayerContext{
        context_, arena_, parameters_, adaptable_, *linear_method_, storage, ParallelRank{}, max_positions});
    QUIRE_ASSIGN_OR_RETURN(model_, factory(*layer_context_, config));
    QUIRE_RETURN_IF_ERROR(model_->load_weights(weights, progress));
    groups_ = group_layers(model_->kv_cache_specs());
    adapters_ = std::make_unique<LoraManager>(LoraTarget{adaptable_, model_->stacked_names(), storage});
    return {};
  }

  void allocate_cache(const std::vector<int64_t>& blocks_per_group, int64_t block_size, DType dtype) {
    kv_cache_ = std::make_unique<KvCacheStorage>(groups_, blocks_per_group, block_size, dtype);
    runner_ = std::make_unique<ModelRunner>(context_, *model_, *kv_cache_, *adapters_, block_size);
  }

  const std::vector<KvCacheGroup>& kv_cache_groups() const override { return groups_; }
  int64_t weight_bytes() const { return static_cast<int64_t>(arena_.allocated_bytes()); }
  int threads() const { return pool_.size(); }

  Status execute(const StepPlan& plan, StepResult& result) override { return runner_->run(plan, result); }

  Result<AdapterSummary> load_adapter(uint64_t adapter_id, const AdapterFiles& files) override {
    return adapters_->load(adapter_id, files);
  }
  void remove_adapter(uint64_t adapter_id) override { adapters_->remove(adapter_id); }

 private:
  ThreadPool pool_;
  Workspace workspace_;
  OpContext context_;
  HugePageArena arena_;
  ParameterTable parameters_;
  AdaptableLayers adaptable_;
  std::unique_ptr<LinearMethod> linear_method_;
  std::unique_ptr<LayerContext> layer_context_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<LoraManager> adapters_;
  std::vector<KvCacheGroup> groups_;
  std::unique_ptr<KvCacheStorage> kv_cache_;
  std::unique_ptr<ModelRunner> runner_;
};

/// Positions that rotary tables must cover: what the flag asks for, else what the model's rope covers.
Result<int64_t> settle_positions(const EngineConfig& config, const ModelConfig& model) {
  const int64_t native = rope_context_length(model);
  const int64_t asked = config.max_model_len.value_or(-1);
  if (asked <= native) return asked > 0 ? asked : native;
  if (model.rope.type != RopeType::kDynamic) {
    return invalid_argument(
        fmt::format("--max-model-len {} is beyond the {} positions that the model's config covers", asked, native),
        "max_model_len");
  }
  spdlog::warn(
      "--max-model-len {} is beyond the model's original context of {}: dynamic rope scaling is computed with one "
      "base for the whole context, as vLLM does, and short prompts then differ from transformers",
      asked, native);
  return asked;
}

struct CacheSize {
  std::vector<int64_t> blocks_per_group;
  int64_t bytes = 0;
};

/// Every group gets the same number of blocks: what the bytes allow, and no more than all sequences could ever use.
Result<CacheSize> settle_cache(const EngineConfig& config, const std::vector<KvCacheGroup>& groups, DType dtype) {
  int64_t bytes_per_block = 0;
  for (const KvCacheGroup& group : groups) {
    bytes_per_block += static_cast<int64_t>(block_bytes(group, config.block_size, dtype));
  }
  int64_t blocks = 0;
  if (config.num_kv_blocks_override) {
    blocks = *config.num_kv_blocks_override;
  } else {
    const int64_t budget = config.kv_cache_memory_bytes.value_or(
        static_cast<int64_t>(kDefaultCacheShare * static_cast<double>(available_memory())));
    blocks = budget / bytes_per_block;
    if (blocks < 1) {
      return invalid_argument(fmt::format("the KV cache may take {} bytes, but one block of {} tokens takes {}: raise "
                                          "--kv-cache-memory-bytes or free memory",
                                          budget, config.block_size, bytes_per_block),
                              "kv_cache_memory_bytes");
    }
  }
  return CacheSize{std::vector<int64_t>(groups.size(), blocks), blocks * bytes_per_block};
}

int64_t total_bytes(const WeightSource& weights) {
  int64_t total = 0;
  for (const WeightInfo& weight : weights.tensors()) total += static_cast<int64_t>(weight.stored_bytes);
  return total;
}

}  // namespace

Result<LoadedExecutor> create_single_process_executor(const EngineConfig& config, Checkpoint&& checkpoint,
                                                      const ProgressCallback& progress) {
  if (config.block_size < 16 || config.block_size % 16 != 0 || config.block_size > 4096) {
    return invalid_argument(
        fmt::format("--block-size {} is not a multiple of 16 between 16 and 4096", config.block_size), "block_size");
  }
  const DType storage = config.dtype.value_or(checkpoint.config.dtype);
  const DType kv_dtype =
      config.kv_cache_dtype.value_or(storage == DType::kFloat32 ? DType::kFloat32 : DType::kBFloat16);
  QUIRE_ASSIGN_OR_RETURN(const int64_t positions, settle_positions(config, checkpoint.config));

  auto executor = std::make_unique<SingleProcessExecutor>(config.threads);
  const int64_t all = total_bytes(*checkpoint.weights);
  int64_t done = 0;
  QUIRE_RETURN_IF_ERROR(executor->load(checkpoint.config, *checkpoint.weights, storage, positions, [&](int64_t bytes) {
    done += bytes;
    if (progress) progress(done, all);
  }));
  checkpoint.weights.reset();

  QUIRE_ASSIGN_OR_RETURN(const CacheSize cache, settle_cache(config, executor->kv_cache_groups(), kv_dtype));
  LoadedExecutor loaded;
  QUIRE_ASSIGN_OR_RETURN(loaded.limits, settle_limits(config, positions, checkpoint.config.vocab_size,
                                                      cache.blocks_per_group, executor->kv_cache_groups()));
  executor->allocate_cache(cache.blocks_per_group, config.block_size, kv_dtype);
  loaded.kv_summary =
      fmt::format("weights {} {:.2f} GiB, KV cache {} up to {:.2f} GiB ({} blocks of {} tokens), {} compute threads",
                  dtype_name(storage), static_cast<double>(executor->weight_bytes()) / (1 << 30), dtype_name(kv_dtype),
                  static_cast<double>(cache.bytes) / (1 << 30), cache.blocks_per_group.front(), config.block_size,
                  executor->threads());
  loaded.executor = std::move(executor);
  return loaded;
}

}  // namespace quire

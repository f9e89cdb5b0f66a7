#include "engine/single_process_executor.h"

#include <fmt/format.h>

#include <utility>

#include "engine/settle.h"
#include "engine/worker.h"

namespace quire {

namespace {

class SingleProcessExecutor final : public Executor {
 public:
  explicit SingleProcessExecutor(int threads) : worker_(RankPlace{}, {threads, true, {}}) {}

  Worker& worker() { return worker_; }

  const std::vector<KvCacheGroup>& kv_cache_groups() const override { return worker_.kv_cache_groups(); }
  Status execute(const StepPlan& plan, StepResult& result) override { return worker_.execute(plan, result); }

  Result<AdapterSummary> load_adapter(uint64_t adapter_id, const AdapterFiles& files) override {
    return worker_.adapters().load(adapter_id, files);
  }
  void remove_adapter(uint64_t adapter_id) override { worker_.adapters().remove(adapter_id); }

 private:
  Worker worker_;
};

}  // namespace

Result<LoadedExecutor> create_single_process_executor(const EngineConfig& config, Checkpoint&& checkpoint,
                                                      const ProgressCallback& progress) {
  QUIRE_ASSIGN_OR_RETURN(const WorkerSettings settings, settle_worker(config, checkpoint));
  auto executor = std::make_unique<SingleProcessExecutor>(config.threads);
  Worker& worker = executor->worker();
  QUIRE_RETURN_IF_ERROR(worker.build(checkpoint.config, settings));
  const int64_t all = stored_bytes(*checkpoint.weights);
  int64_t done = 0;
  QUIRE_RETURN_IF_ERROR(worker.load_weights(*checkpoint.weights, [&](int64_t bytes) {
    done += bytes;
    if (progress) progress(done, all);
  }));
  checkpoint.weights.reset();

  const std::vector<KvCacheGroup>& groups = worker.kv_cache_groups();
  QUIRE_ASSIGN_OR_RETURN(const std::vector<int64_t> blocks, settle_blocks(config, groups.size(), worker.block_bytes()));
  LoadedExecutor loaded;
  QUIRE_ASSIGN_OR_RETURN(loaded.limits,
                         settle_limits(config, settings.max_positions, checkpoint.config.vocab_size, blocks, groups));
  worker.allocate_cache(blocks);
  loaded.kv_summary =
      fmt::format("weights {:.2f} GiB ({}), KV cache {} up to {:.2f} GiB ({} blocks of {} tokens), {} compute threads",
                  static_cast<double>(worker.weight_bytes()) / (1 << 30), worker.weight_summary(),
                  dtype_name(settings.kv_cache), static_cast<double>(blocks.front() * worker.block_bytes()) / (1 << 30),
                  blocks.front(), config.block_size, worker.threads());
  loaded.executor = std::move(executor);
  return loaded;
}

}  // namespace quire

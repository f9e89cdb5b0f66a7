#include "engine/ranks/multi_rank_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <utility>

#include "engine/ranks/checkpoint_fingerprint.h"
#include "engine/ranks/rank_adapters.h"
#include "engine/ranks/rank_setup.h"
#include "engine/ranks/step_codec.h"
#include "engine/settle.h"
#include "engine/worker.h"
#include "ops/cpu/kernel_table.h"

namespace quire {
namespace {

constexpr std::chrono::seconds kTimeToEnd{2};
constexpr std::chrono::minutes kRestartWindow{10};  // in which restarts count

class MultiRankExecutor final : public Executor {
 public:
  explicit MultiRankExecutor(std::unique_ptr<RankHost> host) : host_(std::move(host)) {}

  ~MultiRankExecutor() override {
    const bool told = ready_ && !failure() && tell_end();
    if (!told && groups_ != nullptr) groups_->state.transport().abort({ErrorKind::kUnavailable, "rank 0 ends", {}});
    host_->stop(told ? kTimeToEnd : std::chrono::seconds(0));
  }

  Result<LoadedExecutor> load(const EngineConfig& config, Checkpoint&& checkpoint, const ProgressCallback& progress);

  const std::vector<KvCacheGroup>& kv_cache_groups() const override { return worker_->kv_cache_groups(); }

  Status execute(const StepPlan& plan, StepResult& result) override {
    if (const std::optional<Error> error = failure()) return *error;
    if (!std::exchange(pinned_, true)) worker_->pin_caller();
    const CurrentParallelState entered(groups_->state);
    try {
      Status status = run(plan, result);
      if (!status.ok()) fail(status.error());
      return status;
    } catch (const std::exception& error) {
      fail(internal_error(error.what()));
      throw;
    } catch (...) {
      fail(internal_error("the model threw something that is no std::exception"));
      throw;
    }
  }

  Result<AdapterSummary> load_adapter(uint64_t adapter_id, const AdapterFiles& files) override {
    return adapters_->load(adapter_id, files);
  }
  void remove_adapter(uint64_t adapter_id) override { adapters_->remove(adapter_id); }

  std::vector<RankTimes> rank_times() override {
    if (failure()) return {};
    std::string order(kTimesOrder);
    Status status = world().broadcast_object(order);
    if (status.ok()) {
      auto times = share_times(*worker_, *groups_);
      if (times.ok()) return std::move(times).value();
      status = times.error();
    }
    fail(status.error());
    return {};
  }

  Status recover() override;

  std::optional<Error> failure() const override {
    {
      const std::lock_guard lock(mutex_);
      if (failure_) return failure_;
    }
    if (const std::optional<std::string> reason = host_->failure()) {
      return Error{ErrorKind::kUnavailable, *reason, {}};
    }
    return std::nullopt;
  }

 private:
  GroupCoordinator& world() const { return groups_->state.world(); }

  Status run(const StepPlan& plan, StepResult& result) {
    encode_step(plan, order_);
    QUIRE_RETURN_IF_ERROR(world().broadcast_object(order_));
    return worker_->execute(plan, result);
  }

  /// The ranks no longer agree on where they are: none may wait for another.
  void fail(const Error& error) {
    groups_->state.transport().abort({error.kind, "rank 0: " + error.message, {}});
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = error;
  }

  /// How often the ranks may be started anew.
  Status check_restarts();
  Status rejoin();

  bool tell_end() {
    adapters_->stop();
    std::string end;
    return world().broadcast_object(end).ok();
  }

  std::unique_ptr<RankHost> host_;
  RankSetup setup_;
  std::unique_ptr<RankGroups> groups_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<AdapterOrders> adapters_;
  std::vector<int64_t> blocks_;  ///< of each group
  size_t max_restarts_ = 0;      ///< in a window
  std::vector<std::chrono::steady_clock::time_point> restarts_;
  std::string order_;
  bool ready_ = false;   ///< the other ranks take orders
  bool pinned_ = false;  ///< the engine's thread
  mutable std::mutex mutex_;
  std::optional<Error> failure_;
};

std::string describe(const WorkerSettings& settings, const std::string& own_weights,
                     const std::vector<int64_t>& weight_bytes, int64_t blocks, int64_t bytes_per_block,
                     int64_t threads) {
  const auto gibibytes = [](int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); };
  return fmt::format(
      "{} ranks, weights {:.2f} GiB (the largest rank {:.2f}; of rank 0: {}), KV cache {} up to {:.2f} GiB ({} blocks "
      "of {} "
      "tokens), {} compute threads",
      weight_bytes.size(), gibibytes(std::accumulate(weight_bytes.begin(), weight_bytes.end(), int64_t{0})),
      gibibytes(*std::ranges::max_element(weight_bytes)), own_weights, dtype_name(settings.kv_cache),
      gibibytes(blocks * bytes_per_block), blocks, settings.block_size, threads);
}

// The other ranks go through the same meetings in RankServer::load().
Result<LoadedExecutor> MultiRankExecutor::load(const EngineConfig& config, Checkpoint&& checkpoint,
                                               const ProgressCallback& progress) {
  setup_.model = config.path();
  setup_.model_plugins = config.model_plugins;
  QUIRE_ASSIGN_OR_RETURN(setup_.settings, settle_worker(config, checkpoint));
  setup_.tensor_parallel_size = config.tensor_parallel_size;
  setup_.pipeline_parallel_size = config.pipeline_parallel_size;
  setup_.sharing = host_->sharing();
  if (setup_.sharing != RankHost::Sharing::kOwnCpus) setup_.files = fingerprint_of(checkpoint, config.model_plugins);
  setup_.threads = config.threads;
  if (config.threads == 0 && setup_.sharing != RankHost::Sharing::kOwnCpus) setup_.threads = default_compute_threads();
  setup_.kernels = ops::cpu::kernels().name;
  QUIRE_ASSIGN_OR_RETURN(groups_, join_ranks(host_->transport(), setup_));
  const CurrentParallelState entered(groups_->state);

  worker_ = std::make_unique<Worker>(setup_.place_of(0), setup_.threads_of(0));
  QUIRE_RETURN_IF_ERROR(agree(world(), worker_->build(checkpoint.config, setup_.settings)));
  QUIRE_RETURN_IF_ERROR(share_cache_groups(*worker_, *groups_));
  const int64_t all = stored_bytes(*checkpoint.weights);
  int64_t done = 0;
  QUIRE_RETURN_IF_ERROR(agree(world(), worker_->load_weights(*checkpoint.weights, [&](int64_t bytes) {
    done += bytes;
    if (progress) progress(done, all);
  })));
  checkpoint.weights.reset();

  QUIRE_ASSIGN_OR_RETURN(const RankSizes sizes, share_sizes(*worker_, world()));
  const int64_t bytes_per_block = std::accumulate(sizes.block_bytes.begin(), sizes.block_bytes.end(), int64_t{0});
  const std::vector<KvCacheGroup>& groups = worker_->kv_cache_groups();
  QUIRE_ASSIGN_OR_RETURN(std::vector<int64_t> blocks, settle_blocks(config, groups.size(), bytes_per_block));
  LoadedExecutor loaded;
  QUIRE_ASSIGN_OR_RETURN(loaded.limits, settle_limits(config, setup_.settings.max_positions,
                                                      checkpoint.config.vocab_size, blocks, groups));
  QUIRE_RETURN_IF_ERROR(share_blocks(blocks, world()));
  worker_->allocate_cache(blocks);
  blocks_ = blocks;
  max_restarts_ = static_cast<size_t>(config.max_rank_restarts);
  QUIRE_RETURN_IF_ERROR(agree(world(), {}));
  adapters_ = std::make_unique<AdapterOrders>(*worker_, *groups_, host_->can_restart());
  ready_ = true;
  loaded.kv_summary =
      describe(setup_.settings, worker_->weight_summary(), sizes.weight_bytes, blocks.front(), bytes_per_block,
               std::accumulate(sizes.threads.begin(), sizes.threads.end(), int64_t{0}));
  return loaded;
}

// A step that failed for what the model did has ended its requests, and may fail again with others: no rank is to
// blame.
Status MultiRankExecutor::check_restarts() {
  const std::optional<Error> last = failure();
  if (last && last->kind == ErrorKind::kInternal) return {};
  const auto now = std::chrono::steady_clock::now();
  std::erase_if(restarts_, [&](auto time) { return now - time > kRestartWindow; });
  if (restarts_.size() >= max_restarts_) {
    return Error{
        ErrorKind::kUnavailable,
        fmt::format("the ranks have failed {} times within {} minutes (--max-rank-restarts {}), lastly: {}",
                    restarts_.size() + 1, kRestartWindow.count(), max_restarts_, last.value_or(Error()).message),
        {}};
  }
  restarts_.push_back(now);
  return {};
}

// This rank keeps its weights; what is in its cache means nothing without the others' parts.
Status MultiRankExecutor::recover() {
  if (!host_->can_restart()) return failure().value_or(internal_error("no rank has failed"));
  QUIRE_RETURN_IF_ERROR(check_restarts());
  groups_->state.transport().abort({ErrorKind::kUnavailable, "the ranks are started again", {}});
  ready_ = false;
  {
    const std::unique_lock hold = adapters_->hold();
    host_->stop(std::chrono::milliseconds(0));
    groups_.reset();
    QUIRE_RETURN_IF_ERROR(host_->restart());
    QUIRE_RETURN_IF_ERROR(rejoin());
    const std::lock_guard lock(mutex_);
    failure_.reset();
  }
  adapters_->send_removals();
  return {};
}

/// The meetings of load(), for a rank that has loaded already; then the adapters.
Status MultiRankExecutor::rejoin() {
  QUIRE_ASSIGN_OR_RETURN(groups_, join_ranks(host_->transport(), setup_));
  QUIRE_RETURN_IF_ERROR(agree(world(), {}));
  QUIRE_RETURN_IF_ERROR(share_cache_groups(*worker_, *groups_));
  QUIRE_RETURN_IF_ERROR(agree(world(), {}));
  const auto sizes = share_sizes(*worker_, world());
  if (!sizes.ok()) return sizes.error();
  QUIRE_RETURN_IF_ERROR(share_blocks(blocks_, world()));
  QUIRE_RETURN_IF_ERROR(agree(world(), {}));
  ready_ = true;
  return adapters_->repeat(*groups_);
}

}  // namespace

Result<LoadedExecutor> create_multi_rank_executor(const EngineConfig& config, Checkpoint&& checkpoint,
                                                  const ProgressCallback& progress, std::unique_ptr<RankHost> host) {
  auto executor = std::make_unique<MultiRankExecutor>(std::move(host));
  QUIRE_ASSIGN_OR_RETURN(LoadedExecutor loaded, executor->load(config, std::move(checkpoint), progress));
  loaded.executor = std::move(executor);
  return loaded;
}

}  // namespace quire

#include "engine/ranks/rank_server.h"

#include <spdlog/spdlog.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/weight_source.h"
#include "distributed/rank_process.h"
#include "engine/ranks/checkpoint_fingerprint.h"
#include "engine/ranks/rank_adapters.h"
#include "engine/ranks/rank_setup.h"
#include "engine/ranks/step_codec.h"
#include "engine/worker.h"
#include "models/model_plugin.h"
#include "ops/cpu/kernel_table.h"

namespace quire {
namespace {

/// What `function` gives; an exception becomes an Error.
template <typename Function>
Status guarded(Function&& function) {
  try {
    return function();
  } catch (const StartupError& error) {
    return invalid_argument(error.what());
  } catch (const std::bad_alloc&) {
    return Error{ErrorKind::kUnavailable, "there is not enough memory", {}};
  } catch (const std::exception& error) {
    return internal_error(error.what());
  } catch (...) {
    return internal_error("the model threw something that is no std::exception");
  }
}

class RankServer {
 public:
  Status run(std::unique_ptr<RankTransport> transport) {
    QUIRE_ASSIGN_OR_RETURN(groups_, join_ranks(std::move(transport), setup_));
    const CurrentParallelState entered(groups_->state);
    Status ready = load();
    if (!ready.ok()) {
      // Rank 0 knows, and ends the ranks. One that ended by itself now could be taken for the cause.
      (void)world().barrier();
      return ready;
    }
    RankAdapters adapters(*worker_, *groups_);
    worker_->pin_caller();
    Status status = obey();
    if (!status.ok()) {
      groups_->state.transport().abort(
          {status.error().kind, "rank " + std::to_string(world().rank()) + ": " + status.error().message, {}});
    }
    return status;
  }

 private:
  GroupCoordinator& world() const { return groups_->state.world(); }

  /// Each part ends with all ranks agreeing on how it went, so that what is wrong early is told early.
  Status load() {
    Checkpoint checkpoint;
    QUIRE_RETURN_IF_ERROR(agree(world(), guarded([&] { return build(checkpoint); })));
    QUIRE_RETURN_IF_ERROR(share_cache_groups(*worker_, *groups_));
    QUIRE_RETURN_IF_ERROR(agree(world(), guarded([&] { return worker_->load_weights(*checkpoint.weights, {}); })));
    checkpoint.weights.reset();
    QUIRE_RETURN_IF_ERROR(share_sizes(*worker_, world()));
    std::vector<int64_t> blocks;
    QUIRE_RETURN_IF_ERROR(share_blocks(blocks, world()));
    return agree(world(), guarded([&]() -> Status {
                   worker_->allocate_cache(blocks);
                   return {};
                 }));
  }

  Status build(Checkpoint& checkpoint) {
    if (setup_.kernels != ops::cpu::kernels().name) {
      return unsupported("rank 0 computes with kernels " + setup_.kernels + " and this rank with " +
                         std::string(ops::cpu::kernels().name) +
                         ": results would not be repeatable; set QUIRE_CPU_ISA to one that all have");
    }
    QUIRE_RETURN_IF_ERROR(load_model_plugins(setup_.model_plugins));
    QUIRE_ASSIGN_OR_RETURN(checkpoint, open_checkpoint(setup_.model));
    if (!setup_.files.empty() && fingerprint_of(checkpoint, setup_.model_plugins) != setup_.files) {
      return invalid_argument("the files of " + setup_.model +
                              " have changed since rank 0 loaded them: start the server again");
    }
    const int rank = world().rank();
    worker_ = std::make_unique<Worker>(setup_.place_of(rank), setup_.threads_of(rank));
    return worker_->build(checkpoint.config, setup_.settings);
  }

  /// Runs the steps that rank 0 sends; an empty order ends it.
  Status obey() {
    std::string order;
    ReceivedStep step;
    StepResult result;
    while (true) {
      QUIRE_RETURN_IF_ERROR(world().broadcast_object(order));
      if (order.empty()) return {};
      if (order == kTimesOrder) {
        QUIRE_RETURN_IF_ERROR(share_times(*worker_, *groups_));
        continue;
      }
      QUIRE_RETURN_IF_ERROR(step.decode(order));
      QUIRE_RETURN_IF_ERROR(guarded([&] { return worker_->execute(step.plan(), result); }));
    }
  }

  RankSetup setup_;
  std::unique_ptr<RankGroups> groups_;
  std::unique_ptr<Worker> worker_;
};

}  // namespace

Status serve_rank(std::unique_ptr<RankTransport> transport) { return RankServer().run(std::move(transport)); }

std::optional<int> run_as_rank() {
  const auto environment = rank_environment();
  if (environment.ok() && !environment->has_value()) return std::nullopt;
  Error error;
  if (!environment.ok()) {
    error = environment.error();
  } else {
    spdlog::set_level(spdlog::level::err);  // what there is to say rank 0 says
    const auto process = RankProcess::join(**environment);
    if (process.ok()) {
      if (!serve_rank((*process)->transport()).ok()) return 1;
      (*process)->leave();
      return 0;
    }
    error = process.error();
  }
  std::fprintf(stderr, "quire: %s.\n", error.message.c_str());
  return 1;
}

}  // namespace quire

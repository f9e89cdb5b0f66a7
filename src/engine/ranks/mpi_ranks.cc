#include "engine/ranks/mpi_ranks.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "distributed/mpi/mpi_transport.h"
#include "engine/ranks/rank_server.h"

namespace quire {
namespace {

std::optional<int> number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  const std::string_view view(text);
  int value = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  if (error != std::errc() || end != view.data() + view.size()) return std::nullopt;
  return value;
}

/// The other rank that is lost, told from the heartbeat's thread.
class LossOfRank {
 public:
  void set(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    reason_ = reason;
  }
  std::optional<std::string> get() const {
    const std::lock_guard lock(mutex_);
    return reason_;
  }

 private:
  mutable std::mutex mutex_;
  std::optional<std::string> reason_;
};

class MpiRanks final : public RankHost {
 public:
  MpiRanks(std::unique_ptr<MpiTransport> transport, std::shared_ptr<LossOfRank> loss)
      : transport_(std::move(transport)), loss_(std::move(loss)) {}

  std::unique_ptr<RankTransport> transport() override { return std::move(transport_); }
  // Each has the CPUs that the launcher gave it, all of them.
  Sharing sharing() const override { return Sharing::kOwnCpus; }
  // The launcher ends the job when a rank ends, and is the one to start it again.
  Status restart() override { return unsupported("the ranks of an MPI job are started again by its launcher"); }
  bool can_restart() const override { return false; }
  std::optional<std::string> failure() const override { return loss_->get(); }
  void stop(std::chrono::milliseconds) override {}

 private:
  std::unique_ptr<MpiTransport> transport_;
  std::shared_ptr<LossOfRank> loss_;
};

/// A rank that waits for rank 0 in vain has nothing to save.
void end_after_loss(const std::string& reason) {
  std::fprintf(stderr, "quire: %s.\n", reason.c_str());
  _exit(1);
}

}  // namespace

std::optional<ParallelRank> mpi_place() {
  // Of Open MPI's mpirun, of srun --mpi=pmi2, and of srun --mpi=pmix, which leaves the size to Slurm.
  constexpr const char* kVariables[][2] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                           {"PMI_RANK", "PMI_SIZE"},
                                           {"PMIX_RANK", "SLURM_STEP_NUM_TASKS"}};
  for (const auto& [rank, size] : kVariables) {
    const std::optional<int> own = number_in(rank);
    const std::optional<int> all = number_in(size);
    if (own && all && *all > 1 && *own >= 0 && *own < *all) return ParallelRank{*own, *all};
  }
  return std::nullopt;
}

Status check_mpi_job(const EngineConfig& config, const ParallelRank& job) {
  if (job.size == config.ranks()) return {};
  return invalid_argument(
      fmt::format("the MPI job has {} ranks, but --tensor-parallel-size {} and --pipeline-parallel-size {} make {}: "
                  "give every rank the sizes of the whole job",
                  job.size, config.tensor_parallel_size, config.pipeline_parallel_size, config.ranks()),
      "tensor_parallel_size");
}

Result<std::unique_ptr<RankHost>> join_mpi_ranks() {
  auto loss = std::make_shared<LossOfRank>();
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<MpiTransport> transport,
                         MpiTransport::create([loss](const std::string& reason) { loss->set(reason); }));
  spdlog::info("{}", transport->describe());
  return std::unique_ptr<RankHost>(std::make_unique<MpiRanks>(std::move(transport), std::move(loss)));
}

int serve_mpi_rank() {
  auto transport = MpiTransport::create(end_after_loss);
  if (transport.ok()) return serve_rank(std::move(transport).value()).ok() ? 0 : 1;
  std::fprintf(stderr, "quire: %s.\n", transport.error().message.c_str());
  return 1;
}

}  // namespace quire

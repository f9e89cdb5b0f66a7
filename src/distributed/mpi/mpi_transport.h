// The transport between ranks that mpirun or Slurm started, on any number of machines. Inside a machine they meet in
// shared memory, between machines over MPI.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "distributed/mpi/machine_ranks.h"
#include "distributed/mpi/mpi_heartbeat.h"
#include "distributed/mpi/mpi_messages.h"
#include "distributed/rank_transport.h"

namespace quire {

/// A process has at most one. Where a rank has failed, the process should end with an exit code other than 0: the
/// launcher then ends the job.
class MpiTransport final : public RankTransport {
 public:
  /// Loads MPI and joins the job that this process was started in (a job of one if it was started by hand). When
  /// another rank gives no sign of life for five seconds, all waits end, and `on_loss` is told why, from another
  /// thread.
  static Result<std::unique_ptr<MpiTransport>> create(std::function<void(const std::string&)> on_loss = {});
  /// Leaves the job, which waits for the other ranks to do so; not after an abort.
  ~MpiTransport() override;

  int rank() const override { return mpi_.rank(); }
  int world_size() const override { return mpi_.size(); }
  Result<std::unique_ptr<Communicator>> create_communicator(const std::string& name,
                                                            const std::vector<std::vector<int>>& groups) override;
  void abort(const Error& reason) override { abort_->set(reason.message); }
  std::vector<int> ranks_of_same_cpus() const override { return machines_.same_cpus; }

  /// "4 ranks on 2 machines, which meet over MPI, and inside a machine in shared memory", for the log.
  std::string describe() const;

 private:
  explicit MpiTransport(const quire_mpi_table& mpi) : mpi_(mpi), abort_(std::make_shared<AbortReason>()) {}
  Status meet(std::function<void(const std::string&)> on_loss);
  /// The communicator of a group of ranks that all are here.
  std::unique_ptr<Communicator> inside(const std::string& name, int channel, const std::vector<int>& members) const;

  const quire_mpi_table& mpi_;
  std::shared_ptr<AbortReason> abort_;
  MachineRanks machines_;
  std::unique_ptr<MpiHeartbeat> heartbeat_;
  int next_channel_ = 0;          ///< MPI's tags
  int next_machine_channel_ = 0;  ///< of the segment; agrees between the ranks of a machine
};

}  // namespace quire

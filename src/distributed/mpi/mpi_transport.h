// The transport between ranks that mpirun or Slurm started, on any number of machines.
#pragma once

#include <memory>

#include "distributed/mpi/mpi_messages.h"
#include "distributed/rank_transport.h"

namespace quire {

/// A process has at most one. Where a rank has failed, the process should end with an exit code other than 0: the
/// launcher then ends the job.
class MpiTransport final : public RankTransport {
 public:
  /// Loads MPI and joins the job that this process was started in (a job of one if it was started by hand).
  static Result<std::unique_ptr<MpiTransport>> create();
  /// Leaves the job, which waits for the other ranks to do so; not after an abort.
  ~MpiTransport() override;

  int rank() const override { return mpi_.rank(); }
  int world_size() const override { return mpi_.size(); }
  Result<std::unique_ptr<Communicator>> create_communicator(const std::string& name,
                                                            const std::vector<std::vector<int>>& groups) override;
  void abort(std::string_view reason) override { abort_->set(reason); }

 private:
  explicit MpiTransport(const quire_mpi_table& mpi) : mpi_(mpi), abort_(std::make_shared<AbortReason>()) {}

  const quire_mpi_table& mpi_;
  std::shared_ptr<AbortReason> abort_;
  int next_channel_ = 0;
};

}  // namespace quire

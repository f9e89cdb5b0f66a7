// The ranks of a job and how they reach each other: what makes communicators for groups of them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "distributed/communicator.h"

namespace quire {

/// One rank's access to the others of its job. Communicators keep what they need of it alive.
class RankTransport {
 public:
  virtual ~RankTransport() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  /// Called by all ranks of the world, in the same order, with the same `groups`: disjoint lists of world ranks in
  /// which each rank occurs once. Gives the communicator of the group that this rank is in; a group of one gets `self`.
  virtual Result<std::unique_ptr<Communicator>> create_communicator(const std::string& name,
                                                                    const std::vector<std::vector<int>>& groups) = 0;

  /// Ends the waits of this rank, and of all that can be told, with an Error that gives the reason; on one machine also
  /// its kind. From any thread.
  virtual void abort(const Error& reason) = 0;

  /// The ranks whose processes may run on the same CPUs as this one, itself among them, where processes have CPUs of
  /// their own; else just this one.
  virtual std::vector<int> ranks_of_same_cpus() const { return {rank()}; }
};

/// Where a rank stands among `groups`: its group, and its place in it. Throws CheckFailure where the groups are not as
/// create_communicator wants them.
struct GroupPlace {
  std::vector<int> ranks;
  int rank_in_group = 0;
};
GroupPlace find_group(const std::vector<std::vector<int>>& groups, int rank, int world_size);

/// A job of one rank.
class SelfTransport final : public RankTransport {
 public:
  int rank() const override { return 0; }
  int world_size() const override { return 1; }
  Result<std::unique_ptr<Communicator>> create_communicator(const std::string& name,
                                                            const std::vector<std::vector<int>>& groups) override;
  void abort(const Error&) override {}
};

}  // namespace quire

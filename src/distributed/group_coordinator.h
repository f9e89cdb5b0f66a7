// A named group of ranks and the operations on tensors that its members do together.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "distributed/communicator.h"
#include "distributed/partition.h"
#include "distributed/rank_transport.h"
#include "tensor/tensor.h"

namespace quire {

/// All members call the same operations in the same order (see Communicator, whose rules on errors, timeouts and
/// threads hold here). Tensors may have a row stride. Dimensions are 0 (rows) and 1 (columns), or -1 for columns and -2
/// for rows.
class GroupCoordinator {
 public:
  /// Called by all ranks of `transport` in the same order with the same lists of world ranks; see
  /// RankTransport::create_communicator. `unique_name` is as "tp:0".
  static Result<std::shared_ptr<GroupCoordinator>> create(std::string unique_name, RankTransport& transport,
                                                          const std::vector<std::vector<int>>& groups, Device device);

  const std::string& unique_name() const { return unique_name_; }
  Device device() const { return device_; }

  /// This process's rank in the world.
  int rank() const { return ranks()[static_cast<size_t>(rank_in_group())]; }
  int rank_in_group() const { return communicator_->rank(); }
  /// Number of members.
  int world_size() const { return communicator_->size(); }
  ParallelRank place() const { return {rank_in_group(), world_size()}; }
  /// The members' ranks in the world.
  const std::vector<int>& ranks() const { return communicator_->ranks(); }

  // World ranks, as vLLM gives them. After the last comes the first.
  int first_rank() const { return ranks().front(); }
  int last_rank() const { return ranks().back(); }
  int next_rank() const { return ranks()[static_cast<size_t>((rank_in_group() + 1) % world_size())]; }
  int prev_rank() const { return ranks()[static_cast<size_t>((rank_in_group() + world_size() - 1) % world_size())]; }
  bool is_first_rank() const { return rank_in_group() == 0; }
  bool is_last_rank() const { return rank_in_group() == world_size() - 1; }

  /// x = sum of all ranks' x (float32); for a caller that no longer needs its own part.
  Status all_reduce(Tensor& x);
  /// out = sum of all ranks' x (float32); `x` stays as it is.
  Status all_reduce(const Tensor& x, Tensor& out);

  /// `out` is all ranks' x side by side along `dim`, in the order of the ranks. `sizes` are the parts' extents along
  /// `dim`, the same list on all ranks; empty where all are equal.
  Status all_gather(const Tensor& x, Tensor& out, int dim = -1, std::span<const int64_t> sizes = {});
  /// The sum of all ranks' x (float32), of which this rank gets its part along `dim`.
  Status reduce_scatter(const Tensor& x, Tensor& out, int dim = -1, std::span<const int64_t> sizes = {});
  /// As all_gather, on the member `destination` alone; elsewhere `out` may be undefined.
  Status gather(const Tensor& x, Tensor& out, int destination = 0, int dim = -1, std::span<const int64_t> sizes = {});

  /// The member `source`'s x to all; same shape and type everywhere.
  Status broadcast(Tensor& x, int source = 0);
  /// The member `source`'s bytes to all, of a length that only it knows.
  Status broadcast_object(std::string& object, int source = 0);

  /// To and from another member, by its place in the group. The receiver's tensor has the sender's shape and type.
  Status send(const Tensor& x, int destination);
  Status receive(Tensor& x, int source);
  /// Returns when all members have come here.
  Status barrier() { return communicator_->barrier(); }

  const CommunicatorTimes& times() const { return communicator_->times(); }
  /// How long one operation may wait; zero: as long as the ranks live.
  void set_timeout(std::chrono::milliseconds timeout) { communicator_->set_timeout(timeout); }
  /// Breaks off the waits of the group's ranks, from any thread; see Communicator::abort.
  void abort(std::string_view reason) { communicator_->abort(reason); }

 private:
  GroupCoordinator(std::string unique_name, Device device, std::unique_ptr<Communicator> communicator);

  std::string unique_name_;
  Device device_;
  std::unique_ptr<Communicator> communicator_;
};

}  // namespace quire

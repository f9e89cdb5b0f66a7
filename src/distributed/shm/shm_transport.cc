#include "distributed/shm/shm_transport.h"

#include <utility>

#include "distributed/self_communicator.h"
#include "distributed/shm/shm_communicator.h"

namespace quire {

ShmTransport::ShmTransport(std::shared_ptr<SharedSegment> segment, int rank)
    : segment_(std::move(segment)), rank_(rank) {
  QUIRE_CHECK(segment_ != nullptr && rank >= 0 && rank < segment_->ranks());
}

Result<std::unique_ptr<Communicator>> ShmTransport::create_communicator(const std::string& name,
                                                                        const std::vector<std::vector<int>>& groups) {
  GroupPlace place = find_group(groups, rank_, world_size());
  const bool all_alone = groups.size() == static_cast<size_t>(world_size());
  if (!all_alone && next_channel_ == segment_->channels()) {
    return internal_error("no channel is left for the group " + name + ": the ranks' memory file has " +
                          std::to_string(segment_->channels()));
  }
  const int channel = all_alone ? 0 : next_channel_++;
  if (place.ranks.size() == 1) {
    return std::unique_ptr<Communicator>(std::make_unique<SelfCommunicator>(name, rank_));
  }
  return std::unique_ptr<Communicator>(
      std::make_unique<ShmCommunicator>(name, segment_, channel, place.rank_in_group, std::move(place.ranks)));
}

}  // namespace quire

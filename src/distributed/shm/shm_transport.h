// The transport between the ranks of one machine.
#pragma once

#include <memory>

#include "distributed/rank_transport.h"
#include "distributed/shm/shared_segment.h"

namespace quire {

class ShmTransport final : public RankTransport {
 public:
  ShmTransport(std::shared_ptr<SharedSegment> segment, int rank);

  int rank() const override { return rank_; }
  int world_size() const override { return segment_->ranks(); }
  /// Takes a channel of the segment for good; an Error when none is left.
  Result<std::unique_ptr<Communicator>> create_communicator(const std::string& name,
                                                            const std::vector<std::vector<int>>& groups) override;
  void abort(const Error& reason) override { segment_->abort(reason.message, reason.kind); }

  SharedSegment& segment() const { return *segment_; }

 private:
  std::shared_ptr<SharedSegment> segment_;
  int rank_;
  int next_channel_ = 0;  ///< all ranks make the same calls, so this agrees
};

}  // namespace quire

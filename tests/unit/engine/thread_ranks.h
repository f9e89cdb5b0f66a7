// Ranks as threads of the test: the same code as in processes, but for their start.
#pragma once

#include <thread>
#include <vector>

#include "distributed/rank_threads.h"
#include "engine/ranks/multi_rank_executor.h"
#include "engine/ranks/rank_server.h"

namespace quire::testing {

class ThreadRanks final : public RankHost {
 public:
  explicit ThreadRanks(int ranks) : ranks_(ranks) { (void)restart(); }
  ~ThreadRanks() override { stop(std::chrono::milliseconds(0)); }

  std::unique_ptr<RankTransport> transport() override { return std::make_unique<ShmTransport>(segment_, 0); }
  Sharing sharing() const override { return Sharing::kThreads; }
  Status restart() override {
    segment_ = make_segment(options_for(ranks_));
    for (int rank = 1; rank < ranks_; ++rank) {
      threads_.emplace_back(
          [segment = segment_, rank] { (void)serve_rank(std::make_unique<ShmTransport>(segment, rank)); });
    }
    return {};
  }
  bool can_restart() const override { return true; }
  std::optional<std::string> failure() const override { return std::nullopt; }
  void stop(std::chrono::milliseconds grace) override {
    if (grace.count() == 0) segment_->abort("the test ends");
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  SharedSegment& segment() const { return *segment_; }

 private:
  static SegmentOptions options_for(int ranks) {
    SegmentOptions options;
    options.ranks = ranks;
    return options;
  }

  const int ranks_;
  std::shared_ptr<SharedSegment> segment_;
  std::vector<std::thread> threads_;
};

/// create_executor(), its ranks being threads.
inline Result<LoadedExecutor> create_threaded_executor(const EngineConfig& config, Checkpoint&& checkpoint) {
  if (config.ranks() == 1) return create_executor(config, std::move(checkpoint), nullptr);
  return create_multi_rank_executor(config, std::move(checkpoint), nullptr,
                                    std::make_unique<ThreadRanks>(config.ranks()));
}

}  // namespace quire::testing

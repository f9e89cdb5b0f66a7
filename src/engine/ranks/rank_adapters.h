// Adapters on several ranks: rank 0 sends each adapter's files to the others, all pack their part at the same time, and
// all have it or none. This goes over a group of its own, so that steps go on meanwhile.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "engine/ranks/rank_setup.h"
#include "engine/worker.h"
#include "lora/adapter_files.h"

namespace quire {

/// Rank 0's side. Safe to use from any thread.
class AdapterOrders {
 public:
  AdapterOrders(Worker& worker, RankGroups& groups) : worker_(worker), groups_(groups) {}

  /// One after the other.
  Result<AdapterSummary> load(uint64_t id, const AdapterFiles& files);
  /// Here at once; the other ranks are told as soon as no load is under way.
  void remove(uint64_t id);
  /// Ends the other ranks' side.
  void stop();

 private:
  void send_removals();

  GroupCoordinator& group() const { return *groups_.adapters; }

  Worker& worker_;
  RankGroups& groups_;
  std::mutex order_;  ///< held while the group is in use
  std::mutex mutex_;  ///< guards what follows
  std::vector<uint64_t> removals_;
};

/// The other ranks' side: a thread that does what rank 0 says until that says stop or the ranks fail.
class RankAdapters {
 public:
  RankAdapters(Worker& worker, RankGroups& groups);
  ~RankAdapters();
  RankAdapters(const RankAdapters&) = delete;
  RankAdapters& operator=(const RankAdapters&) = delete;

 private:
  Status obey();

  GroupCoordinator& group() const { return *groups_.adapters; }

  Worker& worker_;
  RankGroups& groups_;
  std::thread thread_;
};

}  // namespace quire

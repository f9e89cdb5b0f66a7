// Adapters on several ranks: rank 0 sends each adapter's files to the others, all pack their part at the same time, and
// all have it or none. This goes over a group of its own, so that steps go on meanwhile.
#pragma once

#include <cstdint>
#include <map>
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
  /// With `keep` each adapter's files stay in memory, for repeat().
  AdapterOrders(Worker& worker, RankGroups& groups, bool keep) : worker_(worker), groups_(&groups), keep_(keep) {}

  /// One after the other.
  Result<AdapterSummary> load(uint64_t id, const AdapterFiles& files);
  /// Here at once; the other ranks are told as soon as no load is under way.
  void remove(uint64_t id);
  /// Ends the other ranks' side.
  void stop();

  /// Waits for a load under way, which must have been broken off; until the lock goes, none begins.
  std::unique_lock<std::mutex> hold() { return std::unique_lock(order_); }
  /// Under hold(): goes on with other groups, whose ranks know of no adapter, and loads all again.
  Status repeat(RankGroups& groups);
  /// After hold(): tells the other ranks what was removed meanwhile.
  void send_removals();

 private:
  Result<AdapterSummary> send(uint64_t id, std::string& order,
                              const Result<std::shared_ptr<const AdapterFiles>>& files);

  Worker& worker_;
  RankGroups* groups_;
  const bool keep_;
  std::mutex order_;  ///< held while the groups are in use
  std::mutex mutex_;  ///< guards what follows
  std::vector<uint64_t> removals_;
  std::map<uint64_t, std::string> loaded_;  ///< the orders of all adapters, where they are kept
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

  Worker& worker_;
  RankGroups& groups_;
  std::thread thread_;
};

}  // namespace quire

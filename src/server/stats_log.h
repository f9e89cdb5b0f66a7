// The line about throughput that the server logs every ten seconds while there is traffic.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "engine/engine.h"

namespace quire {

/// The line for what happened between two snapshots, or nothing when there was no traffic between them nor is any now.
std::optional<std::string> stats_line(const EngineStats& before, const EngineStats& after, double seconds);

/// A thread that logs the line.
class StatsLog {
 public:
  StatsLog(std::function<EngineStats()> stats, std::chrono::milliseconds interval);
  ~StatsLog();
  StatsLog(const StatsLog&) = delete;
  StatsLog& operator=(const StatsLog&) = delete;

 private:
  void run();

  const std::function<EngineStats()> stats_;
  const std::chrono::milliseconds interval_;
  std::mutex mutex_;
  std::condition_variable stop_signal_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace quire

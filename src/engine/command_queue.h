// How other threads reach the engine thread: commands, taken in the order in which they came.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "engine/request.h"

namespace quire {

class EngineCore;

struct EngineCommand {
  enum class Kind : uint8_t { kSubmit, kAbort, kCall };
  Kind kind = Kind::kSubmit;
  EngineRequest request;                  ///< kSubmit
  OutputCallback callback;                ///< kSubmit
  double arrival_time = 0;                ///< kSubmit
  std::string id;                         ///< kAbort
  std::function<void(EngineCore&)> call;  ///< kCall; not called once the engine has ended
};

/// Many writers, one reader. Once closed, nothing more gets in.
class CommandQueue {
 public:
  /// False when the queue is closed; the command is then left as it was.
  bool push(EngineCommand&& command) {
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return false;
      commands_.push_back(std::move(command));
      submissions_ += commands_.back().kind == EngineCommand::Kind::kSubmit;
    }
    wake_.notify_one();
    return true;
  }

  /// Moves what has come into `out` (empty before).
  void take(std::vector<EngineCommand>& out) {
    const std::lock_guard lock(mutex_);
    out.swap(commands_);
    submissions_ = 0;
  }

  /// Parks until there are commands or the queue is closed, for at most `time`; false when nothing came.
  bool wait_for(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return wake_.wait_for(lock, time, [this] { return closed_ || !commands_.empty(); });
  }

  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    wake_.notify_all();
  }
  bool closed() const {
    const std::lock_guard lock(mutex_);
    return closed_;
  }
  int64_t submissions() const {
    const std::lock_guard lock(mutex_);
    return submissions_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<EngineCommand> commands_;
  int64_t submissions_ = 0;
  bool closed_ = false;
};

}  // namespace quire

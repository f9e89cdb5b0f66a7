// One child process, held by a descriptor (pidfd), so that a signal never reaches another process with its number.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace quire {

/// A started process. It is neither killed nor waited for when this object goes: its owner does that.
class ChildProcess {
 public:
  /// Starts `program` with an environment of exactly `environment`, standard input from nowhere, default signal
  /// handling, in a process group of its own (what a terminal sends goes to the parent only). `inherited` descriptors
  /// stay open under their numbers.
  static Result<ChildProcess> spawn(const std::string& program, const std::vector<std::string>& arguments,
                                    const std::vector<std::string>& environment, const std::vector<int>& inherited);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();

  int pid() const { return pid_; }
  /// Readable when the process has ended.
  int descriptor() const { return descriptor_; }
  void kill() const;
  /// How it ended ("was killed by signal 9"), once it has; takes it off the system's list of processes.
  std::optional<std::string> try_wait();

 private:
  ChildProcess(int pid, int descriptor) : pid_(pid), descriptor_(descriptor) {}
  int pid_ = -1;
  int descriptor_ = -1;
};

}  // namespace quire

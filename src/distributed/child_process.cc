#include "distributed/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace quire {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

/// What posix_spawn is told; frees itself.
struct SpawnSettings {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;

  explicit SpawnSettings(const std::vector<int>& inherited) {
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    // Onto itself: takes the mark off that would close it.
    for (const int descriptor : inherited) posix_spawn_file_actions_adddup2(&files, descriptor, descriptor);
    posix_spawnattr_init(&attributes);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
};

}  // namespace

Result<ChildProcess> ChildProcess::spawn(const std::string& program, const std::vector<std::string>& arguments,
                                         const std::vector<std::string>& environment,
                                         const std::vector<int>& inherited) {
  std::vector<std::string> all_arguments = {program};
  all_arguments.insert(all_arguments.end(), arguments.begin(), arguments.end());
  const SpawnSettings settings(inherited);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, program.c_str(), &settings.files, &settings.attributes,
                                pointers(all_arguments).data(), pointers(environment).data());
  if (error != 0) return internal_error(program + " cannot be started: " + std::strerror(error));
  const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (descriptor < 0) {
    const std::string message = std::strerror(errno);
    ::kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return internal_error("a started process cannot be watched (pidfd_open, Linux 5.3): " + message);
  }
  return ChildProcess(pid, descriptor);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), descriptor_(std::exchange(other.descriptor_, -1)) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

ChildProcess::~ChildProcess() {
  if (descriptor_ >= 0) close(descriptor_);
}

void ChildProcess::kill() const { syscall(SYS_pidfd_send_signal, descriptor_, SIGKILL, nullptr, 0); }

std::optional<std::string> ChildProcess::try_wait() {
  int status = 0;
  const pid_t ended = waitpid(pid_, &status, WNOHANG);
  if (ended == 0) return std::nullopt;
  if (ended < 0) return "has ended";  // somebody else took it off the list
  if (WIFSIGNALED(status)) return "was killed by signal " + std::to_string(WTERMSIG(status));
  return "ended with exit code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace quire

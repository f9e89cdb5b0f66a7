// A process's life as a server: signals, drain, exit.
#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <iostream>
#include <utility>

#include "server/async_llm_backend.h"
#include "server/server.h"

namespace quire {

namespace {

constexpr std::chrono::milliseconds kLookAtEngine{200};
constexpr std::chrono::seconds kLastAnswers{5};  // for errors to reach the clients of an engine that has stopped

std::atomic<int> g_signal_event{-1};

extern "C" void on_stop_signal(int) {
  const int saved_errno = errno;
  const uint64_t one = 1;
  // The handler may do no more than this; a full counter would only mean that many signals wait already.
  [[maybe_unused]] const ssize_t written = write(g_signal_event.load(), &one, sizeof one);
  errno = saved_errno;
}

/// SIGINT and SIGTERM as something to wait for, while it lives.
class StopSignals {
 public:
  StopSignals() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE)) {
    if (event_ < 0) throw StartupError("Cannot make an event descriptor for signals.");
    g_signal_event.store(event_);
    struct sigaction action = {};
    action.sa_handler = on_stop_signal;
    action.sa_flags = SA_RESTART;
    sigaction(SIGINT, &action, &old_interrupt_);
    sigaction(SIGTERM, &action, &old_terminate_);
  }
  ~StopSignals() {
    sigaction(SIGINT, &old_interrupt_, nullptr);
    sigaction(SIGTERM, &old_terminate_, nullptr);
    g_signal_event.store(-1);
    close(event_);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// True when a signal came within the time.
  bool wait(std::chrono::milliseconds time) const {
    pollfd descriptor = {event_, POLLIN, 0};
    if (poll(&descriptor, 1, static_cast<int>(time.count())) <= 0) return false;
    uint64_t count = 0;
    return read(event_, &count, sizeof count) == sizeof count;
  }

 private:
  int event_;
  struct sigaction old_interrupt_ = {}, old_terminate_ = {};
};

void drain(Server& server, const StopSignals& signals, std::chrono::seconds timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (!server.idle()) {
    if (signals.wait(std::chrono::milliseconds(20))) {
      spdlog::warn("Second signal: ending without waiting for running requests.");
      return;
    }
    if (std::chrono::steady_clock::now() >= end) {
      spdlog::warn("Running requests did not finish within {} s; ending them.", timeout.count());
      return;
    }
  }
}

}  // namespace

int run_server(const ServerOptions& options, AsyncLlm& llm, BoundAddress address) {
  AsyncLlmBackend backend(llm);
  const StopSignals signals;
  auto started = Server::start(options, backend, std::move(address));
  if (!started.ok()) {
    std::cerr << "quire: " << started.error().message << std::endl;
    return 1;
  }
  Server& server = *started.value();
  llm.engine().set_step_observer([&server](int64_t tokens) { server.observe_step(tokens); });
  std::cout << fmt::format("quire is listening on {} (OpenAI API under {}/v1)", server.url(), server.url())
            << std::endl;
  while (!signals.wait(kLookAtEngine) && llm.healthy()) {
  }
  const bool healthy = llm.healthy();
  if (healthy) {
    spdlog::info("Stopping: running requests may finish within {} s.", options.shutdown_timeout.count());
  } else {
    std::cerr << "quire: the engine has stopped, and the server with it: " << llm.engine().fault() << std::endl;
  }
  server.begin_drain();
  drain(server, signals, healthy ? options.shutdown_timeout : std::min(options.shutdown_timeout, kLastAnswers));
  server.stop();
  llm.engine().set_step_observer({});
  return healthy ? 0 : 1;
}

}  // namespace quire

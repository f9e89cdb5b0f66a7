#include "engine/engine.h"

#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/admission.h"
#include "engine/command_queue.h"
#include "engine/engine_core.h"
#include "engine/steady_seconds.h"

namespace quire {
namespace {

/// The idle integrity check starts only after this long without work, so as not to stand in the way of a quick
/// successor.
constexpr std::chrono::milliseconds kQuietBeforeCheck{100};
/// How often an idle engine looks whether its executor has failed.
constexpr std::chrono::milliseconds kIdleLook{500};

}  // namespace

struct Engine::Impl {
  Impl(const EngineConfig& config, const EngineLimits& settled, std::unique_ptr<Executor> executor)
      : limits(with_blocks_per_group(settled, executor->kv_cache_groups())),
        max_tokens(max_request_tokens(limits, executor->kv_cache_groups())),
        core(config, limits, std::move(executor), [this](const std::string& id) { forget(id); }) {}

  void run();
  void serve();
  void obey(EngineCommand& command);
  void obey_all();
  void finish(FinishReason reason, const std::optional<Error>& error);
  void publish(bool ended);
  void observe(int64_t tokens);
  /// What `function` gives, called with the core by the engine thread between two steps; the default of its type where
  /// the engine has ended, or dies over it. For other threads.
  template <typename Function>
  std::invoke_result_t<Function, EngineCore&> ask(Function function) {
    using Answer = std::invoke_result_t<Function, EngineCore&>;
    auto promise = std::make_shared<std::promise<Answer>>();
    std::future<Answer> answer = promise->get_future();
    EngineCommand command;
    command.kind = EngineCommand::Kind::kCall;
    command.call = [promise = std::move(promise), function = std::move(function)](EngineCore& engine_core) {
      promise->set_value(function(engine_core));
    };
    try {
      if (queue.push(std::move(command))) return answer.get();
    } catch (const std::future_error&) {
      // The command was dropped with its promise.
    }
    return {};
  }
  void forget(const std::string& id) {
    const std::lock_guard lock(ids_mutex);
    ids.erase(id);
  }

  const EngineLimits limits;
  const int64_t max_tokens;  ///< of one request, prompt and output
  EngineCore core;           ///< the engine thread's
  CommandQueue queue;
  std::vector<EngineCommand> commands;  ///< the engine thread's
  std::atomic<bool> alive{true};

  std::mutex ids_mutex;
  std::unordered_set<std::string> ids;  ///< live requests, queued or running

  mutable std::mutex stats_mutex;
  EngineStats stats;
  std::shared_ptr<const StepObserver> observer;
  std::string fault_message;

  std::thread thread;  ///< last: it uses all of the above
};

void Engine::Impl::run() {
  try {
    serve();
    finish(FinishReason::kAbort, std::nullopt);
  } catch (const std::exception& fault) {
    spdlog::critical("The engine stops: {}", fault.what());
    {
      const std::lock_guard lock(stats_mutex);
      fault_message = fault.what();
    }
    alive = false;
    queue.close();
    finish(FinishReason::kError,
           internal_error(std::string("The engine has stopped after an internal fault: ") + fault.what()));
  }
}

void Engine::Impl::serve() {
  while (!queue.closed()) {
    obey_all();
    int64_t tokens = 0;
    if (core.has_requests()) tokens = core.step();
    publish(false);
    core.deliver();
    if (tokens > 0) observe(tokens);
    if (core.has_requests() || queue.wait_for(kQuietBeforeCheck)) continue;
    core.check_integrity();
    while (!queue.wait_for(kIdleLook)) core.recover_if_failed();
  }
}

void Engine::Impl::obey_all() {
  queue.take(commands);
  for (EngineCommand& slot : commands) {
    EngineCommand command = std::move(slot);
    slot.kind = EngineCommand::Kind::kAbort;  // nothing is left of it, should this one bring a fault
    obey(command);
  }
  commands.clear();
}

void Engine::Impl::obey(EngineCommand& command) {
  switch (command.kind) {
    case EngineCommand::Kind::kSubmit:
      core.add(std::move(command.request), std::move(command.callback), command.arrival_time);
      return;
    case EngineCommand::Kind::kAbort:
      core.abort(command.id);
      return;
    case EngineCommand::Kind::kCall:
      command.call(core);
      return;
  }
}

/// Ends all requests, those still in the queue too. The queue is closed.
void Engine::Impl::finish(FinishReason reason, const std::optional<Error>& error) {
  std::vector<EngineCommand> rest;
  queue.take(rest);
  for (EngineCommand& command : rest) commands.push_back(std::move(command));
  core.end_all(reason, error);
  publish(true);
  core.deliver();
  for (EngineCommand& command : commands) {
    if (command.kind != EngineCommand::Kind::kSubmit) continue;
    RequestOutput output;
    output.id = command.request.id;
    output.finish_reason = reason;
    output.error = error;
    output.usage.prompt_tokens = static_cast<int64_t>(command.request.prompt.size());
    output.usage.arrival_time = command.arrival_time;
    forget(output.id);
    if (command.callback) command.callback(std::move(output));
  }
  commands.clear();
}

void Engine::Impl::publish(bool ended) {
  EngineStats snapshot = core.stats();
  if (ended) {
    snapshot.running = snapshot.waiting = 0;
    snapshot.adapters.clear();
  }
  const std::lock_guard lock(stats_mutex);
  stats = std::move(snapshot);
}

void Engine::Impl::observe(int64_t tokens) {
  std::shared_ptr<const StepObserver> current;
  {
    const std::lock_guard lock(stats_mutex);
    current = observer;
  }
  if (current && *current) (*current)(tokens);
}

Engine::Engine(const EngineConfig& config, const EngineLimits& limits, std::unique_ptr<Executor> executor)
    : impl_(std::make_unique<Impl>(config, limits, std::move(executor))) {
  impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
}

Engine::~Engine() {
  impl_->queue.close();
  impl_->thread.join();
}

const EngineLimits& Engine::limits() const { return impl_->limits; }

Status Engine::submit(EngineRequest request, OutputCallback callback) {
  const Error dead{ErrorKind::kUnavailable, "The engine has stopped and takes no requests.", {}};
  if (!impl_->alive) return dead;
  QUIRE_RETURN_IF_ERROR(judge_request(request, impl_->limits, impl_->max_tokens));
  const std::string id = request.id;
  {
    const std::lock_guard lock(impl_->ids_mutex);
    if (!impl_->ids.insert(id).second)
      return invalid_argument("A request with the id " + id + " is running already.", "request_id");
  }
  EngineCommand command;
  command.kind = EngineCommand::Kind::kSubmit;
  command.request = std::move(request);
  command.callback = std::move(callback);
  command.arrival_time = steady_seconds();
  if (impl_->queue.push(std::move(command))) return {};
  impl_->forget(id);
  return dead;
}

void Engine::abort(const std::string& id) {
  EngineCommand command;
  command.kind = EngineCommand::Kind::kAbort;
  command.id = id;
  impl_->queue.push(std::move(command));
}

Result<AdapterSummary> Engine::load_adapter(uint64_t adapter_id, const AdapterFiles& files) {
  return impl_->core.executor().load_adapter(adapter_id, files);
}

void Engine::remove_adapter(uint64_t adapter_id) { impl_->core.executor().remove_adapter(adapter_id); }

bool Engine::reset_prefix_cache() {
  if (std::this_thread::get_id() == impl_->thread.get_id()) return impl_->core.reset_prefix_cache();
  return impl_->ask([](EngineCore& core) { return core.reset_prefix_cache(); });
}

std::vector<RankTimes> Engine::rank_times() {
  return impl_->ask([](EngineCore& core) { return core.executor().rank_times(); });
}

EngineStats Engine::stats() const {
  EngineStats stats;
  {
    const std::lock_guard lock(impl_->stats_mutex);
    stats = impl_->stats;
  }
  if (impl_->alive) stats.waiting += impl_->queue.submissions();
  return stats;
}

void Engine::set_step_observer(StepObserver observer) {
  auto shared = std::make_shared<const StepObserver>(std::move(observer));
  const std::lock_guard lock(impl_->stats_mutex);
  impl_->observer = std::move(shared);
}

bool Engine::healthy() const { return impl_->alive; }

std::string Engine::fault() const {
  const std::lock_guard lock(impl_->stats_mutex);
  return impl_->fault_message;
}

}  // namespace quire

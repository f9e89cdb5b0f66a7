#include "api/output_pump.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <utility>

namespace quire {

OutputPump::OutputPump(std::function<void(const std::string&)> abort_engine_request)
    : abort_engine_request_(std::move(abort_engine_request)), thread_([this] { run(); }) {}

OutputPump::~OutputPump() { stop(); }

Result<std::vector<OutputCallback>> OutputPump::open(const std::string& id, std::vector<Choice> choices,
                                                     TextCallback callback) {
  const size_t count = choices.size();
  auto request = std::make_shared<Active>(Active{id, std::move(choices), std::move(callback), count});
  {
    const std::lock_guard lock(table_mutex_);
    if (!table_.emplace(id, request).second) {
      return invalid_argument(
          fmt::format("request_id '{}' belongs to a request that is still running; use another.", id), "request_id");
    }
  }
  std::vector<OutputCallback> callbacks;
  for (size_t choice = 0; choice < count; ++choice) {
    callbacks.emplace_back([this, request, choice](RequestOutput&& output) {
      push({request, choice, std::move(output)});
    });
  }
  return callbacks;
}

void OutputPump::forget(const std::string& id) {
  const std::lock_guard lock(table_mutex_);
  table_.erase(id);
}

std::vector<std::string> OutputPump::request_abort(const std::string& id) {
  std::vector<std::string> engine_ids;
  const std::lock_guard lock(table_mutex_);
  const auto found = table_.find(id);
  if (found == table_.end()) return engine_ids;
  found->second->abort_requested = true;
  for (const Choice& choice : found->second->choices) engine_ids.push_back(choice.engine_id);
  return engine_ids;
}

bool OutputPump::abort_requested(const std::string& id) const {
  const std::lock_guard lock(table_mutex_);
  const auto found = table_.find(id);
  return found != table_.end() && found->second->abort_requested;
}

int64_t OutputPump::active() const {
  const std::lock_guard lock(table_mutex_);
  return static_cast<int64_t>(table_.size());
}

void OutputPump::push(Item item) {
  bool was_empty = false;
  {
    const std::lock_guard lock(queue_mutex_);
    was_empty = queue_.empty();
    queue_.push_back(std::move(item));
  }
  if (was_empty) queue_filled_.notify_one();
}

void OutputPump::run() {
  std::vector<Item> items;
  while (true) {
    {
      std::unique_lock lock(queue_mutex_);
      queue_filled_.wait(lock, [&] { return closed_ || !queue_.empty(); });
      if (queue_.empty()) return;
      items.swap(queue_);
    }
    for (Item& item : items) {
      if (!item.request->choices[item.choice].done) deliver(*item.request, item.choice, std::move(item.output));
    }
    items.clear();
  }
}

void OutputPump::deliver(Active& request, size_t index, RequestOutput&& output) {
  Choice& choice = request.choices[index];
  const bool engine_finished = output.finished();
  TextOutput result;
  try {
    result = choice.text.process(std::move(output));
  } catch (const std::exception& error) {
    spdlog::error("Request {} failed while its text was made: {}", request.id, error.what());
    result = {};
    result.finish_reason = FinishReason::kError;
    result.error = internal_error("The answer's text could not be made because of an internal fault.");
  }
  result.choice = static_cast<int32_t>(index);
  bool finished = false;
  if (result.finished()) {
    choice.done = true;
    if (!engine_finished) abort_engine_request_(choice.engine_id);
    finished = --request.unfinished == 0;
    if (finished) forget(request.id);
  }
  try {
    if (request.callback) request.callback(std::move(result));
    if (finished) request.callback = nullptr;  // what it holds is not needed any more
  } catch (const std::exception& error) {
    spdlog::error("The callback of request {} threw: {}", request.id, error.what());
  }
}

void OutputPump::finish_leftovers() {
  std::unordered_map<std::string, std::shared_ptr<Active>> left;
  {
    const std::lock_guard lock(table_mutex_);
    left = table_;
  }
  for (const auto& [id, request] : left) {
    for (size_t choice = 0; choice < request->choices.size(); ++choice) {
      if (request->choices[choice].done) continue;
      RequestOutput output;
      output.finish_reason = FinishReason::kAbort;
      deliver(*request, choice, std::move(output));
    }
  }
}

void OutputPump::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(queue_mutex_);
    closed_ = true;
  }
  queue_filled_.notify_one();
  thread_.join();
  finish_leftovers();
}

}  // namespace quire

// The output thread: takes the engine's outputs off the engine thread, makes text of them and calls the clients.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "api/request_text.h"

namespace quire {

/// Knows every request between submit and its last output. Thread-safe.
class OutputPump {
 public:
  /// `abort_engine_request` is called on the output thread with the engine's id of a request that a stop string (or a
  /// fault) ended before the engine did.
  explicit OutputPump(std::function<void(const std::string&)> abort_engine_request);
  ~OutputPump();
  OutputPump(const OutputPump&) = delete;
  OutputPump& operator=(const OutputPump&) = delete;

  /// One of a request's choices: the engine's id for it, and what makes its text.
  struct Choice {
    std::string engine_id;
    RequestText text;
    bool done = false;  ///< used by the output thread alone
  };

  /// Registers a request; the callbacks are for the engine, one for each choice. Refuses an id that is running.
  Result<std::vector<OutputCallback>> open(const std::string& id, std::vector<Choice> choices, TextCallback callback);
  /// The engine did not take the request: its callback will not be called.
  void forget(const std::string& id);
  /// Notes that the request shall end, and gives the engine's ids of its choices; none for an id that is not running.
  std::vector<std::string> request_abort(const std::string& id);
  /// Whether request_abort was called for a request that is still running.
  bool abort_requested(const std::string& id) const;
  int64_t active() const;

  /// Delivers what is queued, ends with kAbort what is left, and joins the thread. No engine may call any more.
  void stop();

 private:
  struct Active {
    std::string id;
    std::vector<Choice> choices;
    TextCallback callback;
    size_t unfinished = 0;         ///< choices; used by the output thread alone
    bool abort_requested = false;  ///< guarded by table_mutex_
  };
  struct Item {
    std::shared_ptr<Active> request;
    size_t choice = 0;
    RequestOutput output;
  };

  void run();
  void push(Item item);
  void deliver(Active& request, size_t choice, RequestOutput&& output);
  void finish_leftovers();

  std::function<void(const std::string&)> abort_engine_request_;
  mutable std::mutex table_mutex_;
  std::unordered_map<std::string, std::shared_ptr<Active>> table_;
  std::mutex queue_mutex_;
  std::condition_variable queue_filled_;
  std::vector<Item> queue_;
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace quire

// One HTTP request under way in the engine: its choices' outputs become one answer or one stream.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/task_pool.h"
#include "server/http/http_types.h"
#include "server/response/response_format.h"
#include "server/serving_backend.h"

namespace quire {

/// Submits one TextRequest per choice and answers `writer`. The client's disconnect, a stream that cannot be written
/// and a failed choice abort what still runs. Kept alive by the engine's callbacks.
class Generation : public std::enable_shared_from_this<Generation> {
 public:
  /// Tells metrics of each output; may be empty.
  using Observer = std::function<void(size_t choice, const TextOutput& output)>;

  /// `pool` builds large answers, so that the thread that brings all streams their text does not. Both must outlive
  /// the HTTP server: its stop ends every generation.
  static void start(ServingBackend& backend, TaskPool& pool, std::vector<TextRequest> requests,
                    std::unique_ptr<ResponseFormat> format, std::shared_ptr<ResponseWriter> writer, bool stream,
                    HttpHeaders headers, Observer observer);

 private:
  Generation(ServingBackend& backend, TaskPool& pool, std::unique_ptr<ResponseFormat> format,
             std::shared_ptr<ResponseWriter> writer, bool stream, HttpHeaders headers, Observer observer);

  void submit_all(std::vector<TextRequest> requests);
  void open();
  void on_output(size_t choice, TextOutput&& output);
  void on_fault(const std::exception& fault);
  void stream_output(size_t choice, const TextOutput& output);
  void take_whole(size_t choice, TextOutput&& output);
  bool is_large() const;
  void send_whole();
  void fail(const Error& error);
  void end_stream();
  void abort_all();
  bool write_event(const nlohmann::ordered_json& event);

  ServingBackend& backend_;
  TaskPool& pool_;
  const std::unique_ptr<ResponseFormat> format_;
  const std::shared_ptr<ResponseWriter> writer_;
  const bool stream_;
  HttpHeaders headers_;
  const Observer observer_;

  std::mutex mutex_;
  std::vector<std::string> ids_;                      ///< of the submitted requests
  std::vector<TextOutput> choices_;                   ///< plain answers: everything so far; streams: the usage only
  std::vector<std::pair<size_t, TextOutput>> early_;  ///< outputs that came before all choices were submitted
  size_t unfinished_ = 0;
  bool open_ = false, done_ = false, abort_wanted_ = false;
};

}  // namespace quire

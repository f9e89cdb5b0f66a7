// The OpenAI-compatible server over an AsyncLlm.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/async_llm.h"
#include "server/cors.h"
#include "server/http/http_server.h"
#include "server/serving_backend.h"

namespace quire {

/// Flags of `quire serve` that are the server's own.
struct ServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8000;                         ///< 0: any free port
  std::vector<std::string> api_keys;            ///< --api-key, several; none: open to all
  std::vector<std::string> served_model_names;  ///< --served-model-name; none: the model as named on the command line
  std::string version = "0.1.0";
  std::chrono::seconds shutdown_timeout{30};  ///< --shutdown-timeout: how long running requests may go on after SIGTERM
  std::chrono::milliseconds stats_interval{10'000};
  int text_threads = 2;            ///< that parse, render and tokenize
  size_t max_queued_texts = 4096;  ///< requests waiting for one of them; beyond: 503
  int io_threads = 2;
  HttpLimits limits;
  std::shared_ptr<TlsContext> tls;  ///< --ssl-certfile and its kin; nullptr: plain HTTP
  CorsOptions cors;
  bool enable_request_id_headers = false;  ///< --enable-request-id-headers: X-Request-Id on every answer
};

/// A running server, for run_server and for tests.
class Server {
 public:
  /// Serves on `address`, which is the one that the options name. The backend must outlive it. Errors are one sentence.
  static Result<std::unique_ptr<Server>> start(const ServerOptions& options, ServingBackend& backend,
                                               BoundAddress address);
  ~Server();  ///< stop()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const;
  std::string url() const;
  /// New work is answered 503 from now on; what runs goes on.
  void begin_drain();
  /// No request is being answered.
  bool idle() const;
  /// Ends everything now.
  void stop();
  /// For StepObserver.
  void observe_step(int64_t tokens);

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Serves until SIGINT or SIGTERM: then new requests get 503, running ones may finish within shutdown_timeout, and a
/// second signal ends at once. Prints the URL when ready. Returns the exit code: 0 after a drain, 1 when the address is
/// not free any more or the engine has stopped after a fault, which ends the server.
int run_server(const ServerOptions& options, AsyncLlm& llm, BoundAddress address);

}  // namespace quire

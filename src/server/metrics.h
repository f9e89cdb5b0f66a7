// What /metrics tells: vLLM's names, from the engine's counters and from the requests that passed here.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/async_llm.h"
#include "base/histogram.h"

namespace quire {

class ServingBackend;

/// Thread-safe.
class Metrics {
 public:
  Metrics(std::string model_name, const EngineLimits& limits);
  ~Metrics();

  /// Follows one request's outputs. Times are the engine's, where an output carries them, else the clock's.
  class Request {
   public:
    Request(Metrics& metrics, std::optional<int64_t> max_tokens);
    void observe(const TextOutput& output);

   private:
    Metrics& metrics_;
    std::optional<int64_t> max_tokens_;
    double arrival_ = 0, last_token_ = 0;
    bool has_first_ = false;
  };

  void observe_step(int64_t tokens);
  void count_adapter_requests(const std::string& name, int64_t requests);
  /// The text exposition format; with `backend`, its adapters too.
  std::string serialize(const EngineStats& stats, const ServingBackend* backend = nullptr) const;

 private:
  struct Histograms;
  void observe_finished(const TextOutput& output, std::optional<int64_t> max_tokens, double end);

  const std::string model_name_;
  const EngineLimits limits_;
  mutable std::mutex mutex_;
  std::unique_ptr<Histograms> histograms_;
};

}  // namespace quire

// What /metrics tells: vLLM's names, from the engine's counters and from the requests that passed here.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/async_llm.h"

namespace quire {

/// Counts of values up to each bound, as Prometheus keeps them. Not thread-safe.
class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1, 0) {}
  void observe(double value, uint64_t times = 1);

  const std::vector<double>& bounds() const { return bounds_; }
  const std::vector<uint64_t>& counts() const { return counts_; }  ///< per bucket, not cumulative; the last is +Inf
  double sum() const { return sum_; }

 private:
  std::vector<double> bounds_;
  std::vector<uint64_t> counts_;
  double sum_ = 0;
};

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
  /// The text exposition format.
  std::string serialize(const EngineStats& stats) const;

 private:
  struct Histograms;
  void observe_finished(const TextOutput& output, std::optional<int64_t> max_tokens, double end);

  const std::string model_name_;
  const EngineLimits limits_;
  mutable std::mutex mutex_;
  std::unique_ptr<Histograms> histograms_;
};

}  // namespace quire

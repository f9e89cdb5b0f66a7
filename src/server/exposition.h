// Builds the text of /metrics (prometheus-cpp's serializer).
#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/histogram.h"

namespace quire {

/// Families that all carry model_name and engine.
class Exposition {
 public:
  explicit Exposition(std::string model_name) : model_name_(std::move(model_name)) {}

  void gauge(const char* name, const char* help, double value);
  void counter(const char* name, const char* help, int64_t value);
  void histogram(const char* name, const char* help, const Histogram& histogram);
  /// A family with one more label; each pair is the label's value and the metric's.
  void labelled(const char* name, const char* help, prometheus::MetricType type, const char* label,
                const std::vector<std::pair<std::string, double>>& values);
  /// A gauge that tells something by its labels.
  void info(const char* name, const char* help, const std::vector<std::pair<std::string, std::string>>& labels,
            double value = 1);
  std::string text() const;

 private:
  prometheus::ClientMetric base() const;

  std::string model_name_;
  std::vector<prometheus::MetricFamily> families_;
};

}  // namespace quire

#include "server/exposition.h"

#include <prometheus/text_serializer.h>

#include <limits>

namespace quire {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

namespace {

void set(ClientMetric& metric, MetricType type, double value) {
  (type == MetricType::Gauge ? metric.gauge.value : metric.counter.value) = value;
}

}  // namespace

ClientMetric Exposition::base() const {
  ClientMetric metric;
  metric.label = {{"engine", "0"}, {"model_name", model_name_}};
  return metric;
}

void Exposition::gauge(const char* name, const char* help, double value) { info(name, help, {}, value); }

void Exposition::counter(const char* name, const char* help, int64_t value) {
  ClientMetric metric = base();
  set(metric, MetricType::Counter, static_cast<double>(value));
  families_.push_back({name, help, MetricType::Counter, {std::move(metric)}});
}

void Exposition::labelled(const char* name, const char* help, MetricType type, const char* label,
                          const std::vector<std::pair<std::string, double>>& values) {
  MetricFamily family{name, help, type, {}};
  for (const auto& [text, value] : values) {
    ClientMetric metric = base();
    metric.label.push_back({label, text});
    set(metric, type, value);
    family.metric.push_back(std::move(metric));
  }
  families_.push_back(std::move(family));
}

void Exposition::info(const char* name, const char* help,
                      const std::vector<std::pair<std::string, std::string>>& labels, double value) {
  ClientMetric metric = base();
  for (const auto& [label, text] : labels) metric.label.push_back({label, text});
  set(metric, MetricType::Gauge, value);
  families_.push_back({name, help, MetricType::Gauge, {std::move(metric)}});
}

void Exposition::histogram(const char* name, const char* help, const Histogram& histogram) {
  ClientMetric metric = base();
  uint64_t cumulative = 0;
  for (size_t i = 0; i < histogram.counts().size(); ++i) {
    cumulative += histogram.counts()[i];
    const bool last = i == histogram.bounds().size();
    const double bound = last ? std::numeric_limits<double>::infinity() : histogram.bounds()[i];
    metric.histogram.bucket.push_back({cumulative, bound});
  }
  metric.histogram.sample_count = cumulative;
  metric.histogram.sample_sum = histogram.sum();
  families_.push_back({name, help, MetricType::Histogram, {std::move(metric)}});
}

std::string Exposition::text() const { return prometheus::TextSerializer().Serialize(families_); }

}  // namespace quire

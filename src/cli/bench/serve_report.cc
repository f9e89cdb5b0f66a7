#include "cli/bench/serve_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/bench/statistics.h"

namespace quire::cli {
namespace {

struct Metric {
  const char* key;
  const char* label;
  const char* title;
};
constexpr Metric kMetrics[] = {{"ttft", "TTFT", "Time to First Token"},
                               {"tpot", "TPOT", "Time per Output Token (excl. 1st token)"},
                               {"itl", "ITL", "Inter-token Latency"},
                               {"e2el", "E2EL", "End-to-end Latency"}};

struct Totals {
  int64_t completed = 0, failed = 0, prompt_tokens = 0, output_tokens = 0;
  double seconds = 0;
  double rate(int64_t count) const { return seconds > 0 ? static_cast<double>(count) / seconds : 0; }
};

Totals totals_of(const LoadResult& result) {
  Totals totals;
  totals.seconds = result.seconds;
  for (const RequestRecord& record : result.records) {
    if (!record.ok) {
      ++totals.failed;
      continue;
    }
    ++totals.completed;
    totals.prompt_tokens += record.prompt_tokens;
    totals.output_tokens += record.output_tokens;
  }
  return totals;
}

/// Milliseconds of one metric over the requests that succeeded.
std::vector<double> values_of(const LoadResult& result, const std::string& key) {
  std::vector<double> values;
  for (const RequestRecord& record : result.records) {
    if (!record.ok) continue;
    if (key == "ttft") values.push_back(record.ttft() * 1e3);
    if (key == "e2el") values.push_back(record.e2el() * 1e3);
    if (key == "tpot" && record.output_tokens > 1) values.push_back(record.tpot() * 1e3);
    if (key == "itl") {
      for (const double gap : record.inter_token) values.push_back(gap * 1e3);
    }
  }
  return values;
}

bool wanted(const ReportOptions& options, const char* key) {
  return std::find(options.metrics.begin(), options.metrics.end(), key) != options.metrics.end();
}

void add_details(nlohmann::ordered_json& json, const LoadResult& result) {
  for (const RequestRecord& record : result.records) {
    json["input_lens"].push_back(record.prompt_tokens);
    json["output_lens"].push_back(record.output_tokens);
    json["ttfts"].push_back(record.ok ? record.ttft() : 0);
    json["itls"].push_back(record.inter_token);
    json["start_times"].push_back(record.sent);
    json["errors"].push_back(record.error);
  }
}

/// Distinct reasons of failure with their counts, the commonest first, at most five.
std::string failure_lines(const LoadResult& result) {
  std::map<std::string, int64_t> counts;
  for (const RequestRecord& record : result.records) {
    if (!record.ok) ++counts[record.error];
  }
  std::vector<std::pair<int64_t, std::string>> order;
  for (const auto& [error, count] : counts) order.emplace_back(-count, error);
  std::sort(order.begin(), order.end());
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(order.size(), 5); ++i) {
    text += fmt::format("  {} x {}\n", -order[i].first, order[i].second);
  }
  return text;
}

}  // namespace

nlohmann::ordered_json report_json(const LoadResult& result, const ReportOptions& options) {
  const Totals totals = totals_of(result);
  nlohmann::ordered_json json;
  json["duration"] = totals.seconds;
  json["completed"] = totals.completed;
  json["failed"] = totals.failed;
  json["total_input_tokens"] = totals.prompt_tokens;
  json["total_output_tokens"] = totals.output_tokens;
  json["request_throughput"] = totals.rate(totals.completed);
  json["output_throughput"] = totals.rate(totals.output_tokens);
  json["total_token_throughput"] = totals.rate(totals.prompt_tokens + totals.output_tokens);
  for (const Metric& metric : kMetrics) {
    if (!wanted(options, metric.key)) continue;
    const std::vector<double> values = values_of(result, metric.key);
    const Summary summary = summarize(values);
    json[fmt::format("mean_{}_ms", metric.key)] = summary.mean;
    json[fmt::format("median_{}_ms", metric.key)] = summary.median;
    json[fmt::format("std_{}_ms", metric.key)] = summary.standard_deviation;
    for (const double p : options.percentiles) json[fmt::format("p{}_{}_ms", p, metric.key)] = percentile(values, p);
  }
  if (options.detailed) add_details(json, result);
  return json;
}

std::string report_text(const LoadResult& result, const ReportOptions& options, const std::string& title_line) {
  const Totals totals = totals_of(result);
  const auto whole = [](const char* name, int64_t value) { return fmt::format("{:<40} {:<10}\n", name, value); };
  const auto real = [](const std::string& name, double value) {
    return fmt::format("{:<40} {:<10.2f}\n", name, value);
  };
  std::string text = fmt::format("{:=^50}\n", " Serving Benchmark Result ");
  if (!title_line.empty()) text += title_line + "\n";
  text += whole("Successful requests:", totals.completed);
  text += whole("Failed requests:", totals.failed);
  text += real("Benchmark duration (s):", totals.seconds);
  text += whole("Total input tokens:", totals.prompt_tokens);
  text += whole("Total generated tokens:", totals.output_tokens);
  text += real("Request throughput (req/s):", totals.rate(totals.completed));
  text += real("Output token throughput (tok/s):", totals.rate(totals.output_tokens));
  text += real("Total token throughput (tok/s):", totals.rate(totals.prompt_tokens + totals.output_tokens));
  for (const Metric& metric : kMetrics) {
    if (!wanted(options, metric.key)) continue;
    const std::vector<double> values = values_of(result, metric.key);
    const Summary summary = summarize(values);
    text += fmt::format("{:-^50}\n", metric.title);
    text += real(fmt::format("Mean {} (ms):", metric.label), summary.mean);
    text += real(fmt::format("Median {} (ms):", metric.label), summary.median);
    for (const double p : options.percentiles) {
      text += real(fmt::format("P{} {} (ms):", p, metric.label), percentile(values, p));
    }
  }
  text += std::string(50, '=') + "\n";
  if (totals.failed > 0) text += "Failures:\n" + failure_lines(result);
  return text;
}

}  // namespace quire::cli

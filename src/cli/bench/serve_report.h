// The figures of `bench serve` as text and as JSON, under vLLM's names.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/bench/serve_load.h"

namespace quire::cli {

struct ReportOptions {
  std::vector<std::string> metrics = {"ttft", "tpot", "itl", "e2el"};
  std::vector<double> percentiles = {99};
  bool detailed = false;  ///< JSON with every request's values
};

/// Keys as vLLM's result file has them: completed, failed, request_throughput, mean_ttft_ms, p99_itl_ms, ...
nlohmann::ordered_json report_json(const LoadResult& result, const ReportOptions& options);

std::string report_text(const LoadResult& result, const ReportOptions& options, const std::string& title_line);

}  // namespace quire::cli

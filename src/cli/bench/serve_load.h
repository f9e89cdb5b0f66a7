// The load of `bench serve`: requests sent to an OpenAI endpoint at a rate, and what was measured of each.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/bench/random_prompts.h"
#include "cli/http_client.h"

namespace quire::cli {

struct LoadOptions {
  std::string path;  ///< "/v1/completions"
  bool chat = false;
  std::vector<std::string> models;  ///< requests take them in turn
  std::string api_key;
  double request_rate = 0;      ///< requests a second; infinite: all at once
  double burstiness = 1;        ///< shape of the gamma distribution of the gaps; 1 is a Poisson process
  int64_t max_concurrency = 0;  ///< 0: no limit
  bool ignore_eos = false;
  double temperature = 0;
  uint64_t seed = 0;
};

/// Times in seconds from the load's start.
struct RequestRecord {
  bool ok = false;
  std::string error;
  double sent = 0, first_token = 0, finished = 0;
  std::vector<double> inter_token;  ///< gaps between events that carry tokens
  int64_t prompt_tokens = 0, output_tokens = 0;

  double ttft() const { return first_token - sent; }
  double e2el() const { return finished - sent; }
  double tpot() const {
    return output_tokens > 1 ? (finished - first_token) / static_cast<double>(output_tokens - 1) : 0;
  }
};

struct LoadResult {
  double seconds = 0;  ///< from the first request sent to the last end
  std::vector<RequestRecord> records;
};

/// Called after each request that ends: how many have ended, and failed.
using LoadProgress = std::function<void(int64_t ended, int64_t failed)>;

/// Sends all prompts and waits for their ends. A failed request is a record with its error, never the end of the load.
LoadResult run_load(HttpClient& client, const LoadOptions& options, const std::vector<RandomPrompt>& prompts,
                    const LoadProgress& progress = {});

/// The JSON body of one request.
std::string request_body(const LoadOptions& options, const RandomPrompt& prompt, const std::string& model);

}  // namespace quire::cli

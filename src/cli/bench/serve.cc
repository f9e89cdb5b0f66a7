// `quire bench serve`: load on any OpenAI-compatible server.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/bench/json_file.h"
#include "cli/bench/serve_load.h"
#include "cli/bench/serve_report.h"
#include "cli/command.h"
#include "cli/flag_set.h"
#include "cli/flag_values.h"
#include "cli/http_client.h"
#include "cli/openai_stream.h"
#include "cli/progress.h"
#include "text/text_assets.h"

namespace quire::cli {
namespace {

/// Without a word of the vocabulary's size, ids are drawn from here: past the special and single-byte tokens that begin
/// most vocabularies, and below the end of every common one.
constexpr int64_t kSafeLowestId = 1000;
constexpr int64_t kSafeHighestId = 29999;

struct Arguments {
  std::string base_url, host = "127.0.0.1";
  int port = 8000;
  std::string backend = "openai", endpoint, dataset = "random", tokenizer;
  std::vector<std::string> lora_modules, metadata;
  std::string model, api_key;
  LoadOptions load;
  PromptShape shape;
  int64_t num_prompts = 1000, num_warmups = 0, seed = 0;
  std::optional<int64_t> vocab_size;
  ReportOptions report;
  bool save_result = false, disable_progress = false;
  std::string result_dir = ".", result_filename;

  HttpUrl url;
};

std::vector<std::string> split_commas(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return parts;
}

ValueSink into_metrics(std::vector<std::string>* target) {
  return [target](const std::string& text) -> Status {
    target->clear();
    for (const std::string& part : split_commas(text)) {
      std::string metric;
      QUIRE_RETURN_IF_ERROR(into_choice(&metric, {"ttft", "tpot", "itl", "e2el"})(part));
      target->push_back(metric);
    }
    return {};
  };
}

ValueSink into_percentiles(std::vector<double>* target) {
  return [target](const std::string& text) -> Status {
    target->clear();
    for (const std::string& part : split_commas(text)) {
      QUIRE_ASSIGN_OR_RETURN(const double p, parse_number(part, 0, 100));
      target->push_back(p);
    }
    return {};
  };
}

void add_server_flags(FlagSet& flags, Arguments& a) {
  flags.group("Server")
      .value("--backend", "NAME",
             "openai or vllm: /v1/completions; openai-chat: /v1/chat/completions (default: openai)",
             into_choice(&a.backend, {"openai", "vllm", "openai-chat"}))
      .value("--base-url", "URL", "The server's address (default: http://HOST:PORT)", into(&a.base_url))
      .value("--host", "HOST", "(default: 127.0.0.1)", into(&a.host))
      .value("--port", "PORT", "(default: 8000)", into(&a.port, 1, 65535))
      .value("--endpoint", "PATH", "/v1/completions or /v1/chat/completions (default: the backend's)",
             into(&a.endpoint))
      .value("--model", "NAME", "Model to name in requests (default: the first of /v1/models)", into(&a.model))
      .list("--lora-modules", "NAME", "Adapters that requests name in turn, instead of --model", &a.lora_modules)
      .value("--api-key", "KEY", "Key to send (default: VLLM_API_KEY, QUIRE_API_KEY or OPENAI_API_KEY)",
             into(&a.api_key));
}

void add_dataset_flags(FlagSet& flags, Arguments& a) {
  flags.group("Prompts")
      .value("--dataset-name", "random", "Random token ids, the only data set built (default: random)",
             into_choice(&a.dataset, {"random"}))
      .value("--num-prompts", "N", "Requests to send (default: 1000)", into(&a.num_prompts, 1))
      .value("--random-input-len,--input-len", "N", "Prompt tokens (default: 1024)", into_size(&a.shape.input_len, 1))
      .value("--random-output-len,--output-len", "N", "Output tokens (default: 128)", into_size(&a.shape.output_len, 1))
      .value("--random-range-ratio", "R", "Lengths vary by up to this share, 0 to 1 (default: 0)",
             into(&a.shape.range_ratio, 0, 1))
      .value("--random-prefix-len", "N", "Tokens that all prompts begin with, beside the input length (default: 0)",
             into_size(&a.shape.prefix_len, 0))
      .value("--tokenizer", "PATH", "Folder or .gguf file whose vocabulary the ids are drawn from", into(&a.tokenizer))
      .value("--random-vocab-size", "N",
             "Draw ids below this (default: the size that --tokenizer or /v1/models gives, else 1000 to 29999)",
             into(&a.vocab_size, 2))
      .value("--seed", "N", "Seed of prompts and arrivals (default: 0)", into(&a.seed, 0));
}

void add_load_flags(FlagSet& flags, Arguments& a) {
  a.load.request_rate = std::numeric_limits<double>::infinity();
  flags.group("Load")
      .value("--request-rate", "R", "Requests a second, or inf for all at once (default: inf)",
             [&a](const std::string& text) -> Status {
               QUIRE_ASSIGN_OR_RETURN(a.load.request_rate,
                                      parse_number(text, 1e-9, std::numeric_limits<double>::infinity()));
               return {};
             })
      .value("--burstiness", "B", "1: Poisson arrivals; less: bursts; more: evenly (default: 1)",
             into(&a.load.burstiness, 0.01, 1e6))
      .value("--max-concurrency", "N", "Most requests under way (default: no limit)", into(&a.load.max_concurrency, 1))
      .value("--num-warmups", "N", "Requests sent before and not measured (default: 0)", into(&a.num_warmups, 0))
      .value("--temperature", "T", "(default: 0)", into(&a.load.temperature, 0, 2))
      .flag("--ignore-eos", "Generate the whole output length", &a.load.ignore_eos);
}

void add_result_flags(FlagSet& flags, Arguments& a) {
  flags.group("Result")
      .value("--percentile-metrics", "LIST", "Which of ttft,tpot,itl,e2el to report (default: all)",
             into_metrics(&a.report.metrics))
      .value("--metric-percentiles", "LIST", "Percentiles to report, such as 50,90,99 (default: 99)",
             into_percentiles(&a.report.percentiles))
      .flag("--save-result", "Write the result as JSON", &a.save_result)
      .flag("--save-detailed", "With every request's values", &a.report.detailed)
      .value("--result-dir", "PATH", "Folder of the file (default: .)", into(&a.result_dir))
      .value("--result-filename", "NAME", "Its name (default: made of rate, model and time)", into(&a.result_filename))
      .list("--metadata", "KEY=VALUE", "Added to the JSON", &a.metadata)
      .flag("--disable-tqdm", "No progress bar", &a.disable_progress);
}

/// Fills url, path and chat from the flags.
void settle_endpoint(Arguments& a) {
  if (a.endpoint.empty()) a.endpoint = a.backend == "openai-chat" ? "/v1/chat/completions" : "/v1/completions";
  if (a.endpoint.front() != '/') a.endpoint = "/" + a.endpoint;
  a.load.chat = a.endpoint.find("chat/completions") != std::string::npos;
  if (!a.load.chat && a.endpoint.find("completions") == std::string::npos) {
    throw FlagError(fmt::format("--endpoint: '{}' is neither /v1/completions nor /v1/chat/completions.", a.endpoint));
  }
  const std::string host = a.host.find(':') == std::string::npos ? a.host : "[" + a.host + "]";
  const auto url = parse_http_url(a.base_url.empty() ? fmt::format("http://{}:{}", host, a.port) : a.base_url);
  if (!url.ok()) throw FlagError(fmt::format("--base-url: {}.", url.error().message));
  a.url = *url;
  // A base that ends with the version, as OpenAI's clients are given it, is joined without doubling it.
  if (a.url.path.size() >= 3 && a.url.path.ends_with("/v1") && a.endpoint.rfind("/v1/", 0) == 0) {
    a.url.path.resize(a.url.path.size() - 3);
  }
  a.load.path = a.url.path + a.endpoint;
}

/// Prefix of the sibling routes: what stands before "/completions" or "/chat/completions".
std::string api_prefix(const Arguments& a) {
  return a.load.path.substr(0, a.load.path.find(a.load.chat ? "/chat/completions" : "/completions"));
}

void settle_vocabulary(Arguments& a, std::optional<int64_t> reported) {
  std::optional<int64_t> size = a.vocab_size;
  if (!size && !a.tokenizer.empty()) {
    const auto assets = load_text_assets(a.tokenizer);
    if (!assets.ok()) throw StartupError(fmt::format("--tokenizer: {}", assets.error().message));
    size = assets->tokenizer->vocab_size();
  }
  if (!size) size = reported;
  a.shape.lowest_id = size ? std::min<int64_t>(kSafeLowestId, *size / 2) : kSafeLowestId;
  a.shape.highest_id = size ? *size - 1 : kSafeHighestId;
}

void save(const Arguments& a, const LoadResult& result) {
  nlohmann::ordered_json json;
  const std::time_t now = std::time(nullptr);
  json["date"] = fmt::format("{:%Y%m%d-%H%M%S}", fmt::localtime(now));
  json["backend"] = a.backend;
  json["endpoint"] = a.load.path;
  json["model_id"] = a.load.models.front();
  json["num_prompts"] = a.num_prompts;
  json["request_rate"] =
      std::isinf(a.load.request_rate) ? nlohmann::ordered_json("inf") : nlohmann::ordered_json(a.load.request_rate);
  json["burstiness"] = a.load.burstiness;
  json["max_concurrency"] =
      a.load.max_concurrency == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(a.load.max_concurrency);
  for (const std::string& pair : a.metadata) {
    const size_t equals = pair.find('=');
    json[pair.substr(0, equals)] = equals == std::string::npos ? "" : pair.substr(equals + 1);
  }
  json.update(report_json(result, a.report));
  std::string name = a.result_filename;
  if (name.empty()) {
    name = fmt::format("{}-{}qps-{}-{}.json", a.backend, json["request_rate"].dump(), a.load.models.front(),
                       json["date"].get<std::string>());
    std::replace_if(
        name.begin(), name.end(), [](char c) { return c == '/' || c == '"'; }, '_');
  }
  const std::filesystem::path path = std::filesystem::path(a.result_dir) / name;
  write_json_file(path.string(), json);
  std::cout << "Result written to " << path.string() << "\n";
}

/// One short request first: a load on a server that refuses it would measure nothing.
void check_server(HttpClient& client, const Arguments& a) {
  PromptShape shape = a.shape;
  shape.output_len = std::min<int64_t>(shape.output_len, 4);
  shape.range_ratio = 0;
  const LoadResult first = run_load(client, a.load, random_prompts(1, shape, ~static_cast<uint64_t>(a.seed)));
  if (!first.records.front().ok) {
    throw StartupError(fmt::format("A first request to http://{}{} failed: {}", a.url.authority(), a.load.path,
                                   first.records.front().error));
  }
}

int run(Arguments& a) {
  settle_endpoint(a);
  a.load.seed = static_cast<uint64_t>(a.seed);
  a.load.api_key = client_api_key(a.api_key);
  HttpClient client(a.url);
  const auto served = find_served_model(client, api_prefix(a), a.load.api_key, a.model);
  if (!served.ok() && a.model.empty() && a.lora_modules.empty()) {
    throw StartupError(fmt::format("No model was found: {}; give one with --model", served.error().message));
  }
  a.load.models = a.lora_modules;
  if (a.load.models.empty()) a.load.models = {a.model.empty() ? served->id : a.model};
  settle_vocabulary(a, served.ok() ? served->vocab_size : std::nullopt);
  check_server(client, a);
  if (a.num_warmups > 0) run_load(client, a.load, random_prompts(a.num_warmups, a.shape, ~a.load.seed - 1));
  LoadResult result;
  {
    Progress bar("requests", a.num_prompts, !a.disable_progress);
    result = run_load(client, a.load, random_prompts(a.num_prompts, a.shape, a.load.seed),
                      [&bar](int64_t ended, int64_t failed) {
                        bar.update(ended, failed > 0 ? fmt::format("{} failed", failed) : std::string());
                      });
  }
  std::string title;
  if (a.load.max_concurrency > 0)
    title = fmt::format("{:<40} {:<10}", "Maximum request concurrency:", a.load.max_concurrency);
  std::cout << report_text(result, a.report, title);
  if (a.save_result) save(a, result);
  const auto succeeded = [](const RequestRecord& record) { return record.ok; };
  return std::any_of(result.records.begin(), result.records.end(), succeeded) ? 0 : 1;
}

}  // namespace

Command add_bench_serve_command(CLI::App& parent) {
  CLI::App* const app = add_subcommand(parent, "serve", "Load an OpenAI-compatible server and time its answers");
  const auto arguments = std::make_shared<Arguments>();
  FlagSet flags(*app);
  add_server_flags(flags, *arguments);
  add_dataset_flags(flags, *arguments);
  add_load_flags(flags, *arguments);
  add_result_flags(flags, *arguments);
  return {app, [arguments] { return run(*arguments); }};
}

}  // namespace quire::cli

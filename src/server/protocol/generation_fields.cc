// Tables of the sampling fields, and the reading of the rest.
#include "server/protocol/generation_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>

namespace quire {

namespace {

using Json = nlohmann::ordered_json;

// More would let one request slow the thread that serves all streams' text.
constexpr size_t kMaxStopStrings = 64;
constexpr size_t kMaxStopBytes = 1024;
constexpr size_t kMaxStopTokenIds = 1024;
constexpr size_t kMaxRequestIdBytes = 256;
constexpr size_t kMaxCacheSaltBytes = 1024;

struct NumberField {
  const char* name;
  double SamplingParams::*member;
};
constexpr NumberField kNumbers[] = {{"temperature", &SamplingParams::temperature}, {"top_p", &SamplingParams::top_p}};

struct BooleanField {
  const char* name;
  bool SamplingParams::*member;
};
constexpr BooleanField kBooleans[] = {
    {"ignore_eos", &SamplingParams::ignore_eos},
    {"include_stop_str_in_output", &SamplingParams::include_stop_str_in_output},
    {"skip_special_tokens", &SamplingParams::skip_special_tokens},
};

void read_stops(FieldReader& fields, SamplingParams& sampling, const RequestRules& rules) {
  sampling.stop = fields.strings("stop");
  if (sampling.stop.size() > kMaxStopStrings) {
    fields.fail(invalid_argument(
        fmt::format("stop has {} strings; at most {} are allowed.", sampling.stop.size(), kMaxStopStrings), "stop"));
  }
  for (const std::string& stop : sampling.stop) {
    if (stop.size() <= kMaxStopBytes) continue;
    fields.fail(invalid_argument(fmt::format("A stop string is longer than {} bytes.", kMaxStopBytes), "stop"));
  }
  const Json* ids = fields.find("stop_token_ids");
  if (!ids) return;
  auto read = read_token_ids(*ids, "stop_token_ids", rules.vocab_size);
  if (!read.ok()) return fields.fail(read.error());
  if (read->size() > kMaxStopTokenIds) {
    return fields.fail(invalid_argument(
        fmt::format("stop_token_ids has {} ids; at most {} are allowed.", read->size(), kMaxStopTokenIds),
        "stop_token_ids"));
  }
  for (const int32_t id : *read) sampling.stop_token_ids.push_back(id);
}

SamplingParams read_sampling(FieldReader& fields, const RequestRules& rules) {
  SamplingParams sampling = rules.defaults;
  for (const NumberField& field : kNumbers) {
    if (const auto value = fields.number(field.name)) sampling.*field.member = *value;
  }
  for (const BooleanField& field : kBooleans) {
    if (const auto value = fields.boolean(field.name)) sampling.*field.member = *value;
  }
  if (const auto top_k = fields.integer("top_k")) sampling.top_k = *top_k;
  if (const auto seed = fields.integer("seed"); seed && *seed != -1) sampling.seed = *seed;
  if (const auto count = fields.integer("prompt_logprobs")) sampling.prompt_logprobs = *count;
  read_stops(fields, sampling, rules);
  return sampling;
}

void read_stream(FieldReader& fields, GenerationFields& request) {
  request.stream = fields.boolean("stream").value_or(false);
  const Json* options = fields.object("stream_options");
  if (!options) return;
  if (!request.stream) {
    return fields.fail(
        invalid_argument("stream_options is only allowed together with stream: true.", "stream_options"));
  }
  FieldReader inner(*options, "stream_options.");
  request.include_usage = inner.boolean("include_usage").value_or(false);
  const bool continuous = inner.boolean("continuous_usage_stats").value_or(false);
  request.continuous_usage_stats = request.include_usage && continuous;
  if (const auto status = inner.status(); !status.ok()) fields.fail(status.error());
}

void read_cache_salt(FieldReader& fields, GenerationFields& request) {
  const auto salt = fields.string("cache_salt");
  if (!salt) return;
  if (salt->empty() || salt->size() > kMaxCacheSaltBytes) {
    return fields.fail(invalid_argument(
        fmt::format("cache_salt must have 1 to {} bytes; leave it out for none.", kMaxCacheSaltBytes), "cache_salt"));
  }
  request.cache_salt = *salt;
}

}  // namespace

GenerationFields read_generation_fields(FieldReader& fields, const RequestRules& rules) {
  GenerationFields request;
  request.model = fields.string("model");
  request.sampling = read_sampling(fields, rules);
  read_stream(fields, request);
  request.return_token_ids = fields.boolean("return_token_ids").value_or(false);
  request.return_tokens_as_token_ids = fields.boolean("return_tokens_as_token_ids").value_or(false);
  request.priority = fields.integer("priority").value_or(0);
  read_cache_salt(fields, request);
  request.request_id = fields.string("request_id").value_or("");
  if (request.request_id.size() > kMaxRequestIdBytes) {
    fields.fail(invalid_argument(fmt::format("request_id is longer than {} bytes.", kMaxRequestIdBytes), "request_id"));
  }
  return request;
}

Status finish_request(FieldReader& fields, const GenerationFields& request, const RequestRules& rules) {
  if (const auto status = validate(request.sampling, rules.max_logprobs); !status.ok()) fields.fail(status.error());
  if (request.stream && request.sampling.prompt_logprobs) {
    fields.fail(
        unsupported("prompt_logprobs is not available in a stream: leave out one of prompt_logprobs and stream.",
                    "prompt_logprobs"));
  }
  QUIRE_RETURN_IF_ERROR(fields.status());
  if (const auto unknown = fields.unknown(); !unknown.empty()) {
    spdlog::debug("Ignored unknown request fields: {}", fmt::join(unknown, ", "));
  }
  return {};
}

}  // namespace quire

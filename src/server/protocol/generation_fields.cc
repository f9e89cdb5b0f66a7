// Reading of the fields beside the sampling parameters, and the judgement over all.
#include "server/protocol/generation_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>

#include "server/protocol/sampling_fields.h"

namespace quire {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxRequestIdBytes = 256;
constexpr size_t kMaxCacheSaltBytes = 1024;

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

void read_max_tokens(FieldReader& fields, GenerationFields& request, std::optional<int64_t> otherwise) {
  const auto old_name = fields.integer("max_tokens");
  const auto new_name = fields.integer("max_completion_tokens");
  request.sampling.max_tokens = new_name ? new_name : old_name ? old_name : otherwise;
  if (new_name && *new_name < 1) {
    fields.fail(invalid_argument(fmt::format("max_completion_tokens must be 1 or more, but is {}.", *new_name),
                                 "max_completion_tokens"));
  }
}

GenerationFields read_generation_fields(FieldReader& fields, const RequestRules& rules) {
  GenerationFields request;
  request.model = fields.string("model");
  request.sampling = read_sampling_fields(fields, rules);
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
  if (const auto status = validate(request.sampling, {rules.max_logprobs, rules.vocab_size}); !status.ok())
    fields.fail(status.error());
  if (request.stream && request.sampling.prompt_logprobs) {
    fields.fail(
        unsupported("prompt_logprobs is not available in a stream: leave out one of prompt_logprobs and stream.",
                    "prompt_logprobs"));
  }
  if (request.stream && request.sampling.use_beam_search) {
    fields.fail(unsupported(
        "use_beam_search is not available in a stream: leave out one of use_beam_search and stream.", "stream"));
  }
  QUIRE_RETURN_IF_ERROR(fields.status());
  if (const auto unknown = fields.unknown(); !unknown.empty()) {
    spdlog::debug("Ignored unknown request fields: {}", fmt::join(unknown, ", "));
  }
  return {};
}

}  // namespace quire

// Parsing of completion requests: the four forms of a prompt, and what differs from chat.
#include "server/protocol/completion_request.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "server/protocol/json_input.h"
#include "server/protocol/unsupported_fields.h"

namespace quire {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxPrompts = 1024;
constexpr int64_t kDefaultMaxTokens = 16;
constexpr const char* kPromptForms =
    "prompt must be a string, a list of strings, a list of token ids or a list of such lists";

Result<CompletionPrompt> read_ids(const Json& ids, const RequestRules& rules) {
  if (ids.empty()) return invalid_argument("The prompt is empty: it needs at least one token.", "prompt");
  QUIRE_ASSIGN_OR_RETURN(std::vector<int32_t> read, read_token_ids(ids, "prompt", rules.vocab_size));
  return CompletionPrompt(std::move(read));
}

Result<std::vector<CompletionPrompt>> read_prompts(const Json& prompt, const RequestRules& rules) {
  std::vector<CompletionPrompt> prompts;
  if (prompt.is_string()) {
    prompts.emplace_back(prompt.get<std::string>());
    return prompts;
  }
  if (!prompt.is_array())
    return invalid_argument(fmt::format("{}, but is {}.", kPromptForms, excerpt(prompt)), "prompt");
  if (prompt.empty()) return invalid_argument("prompt is an empty list: it needs at least one prompt.", "prompt");
  if (prompt[0].is_number()) {
    QUIRE_ASSIGN_OR_RETURN(CompletionPrompt ids, read_ids(prompt, rules));
    prompts.push_back(std::move(ids));
    return prompts;
  }
  if (prompt.size() > kMaxPrompts) {
    return invalid_argument(fmt::format("prompt has {} prompts; at most {} are allowed.", prompt.size(), kMaxPrompts),
                            "prompt");
  }
  for (const Json& item : prompt) {
    const bool alike = item.type() == prompt[0].type();
    if (alike && item.is_string()) {
      prompts.emplace_back(item.get<std::string>());
    } else if (alike && item.is_array()) {
      QUIRE_ASSIGN_OR_RETURN(CompletionPrompt ids, read_ids(item, rules));
      prompts.push_back(std::move(ids));
    } else {
      return invalid_argument(fmt::format("{}, but one of its items is {}.", kPromptForms, excerpt(item)), "prompt");
    }
  }
  return prompts;
}

void read_logprobs(FieldReader& fields, CompletionRequest& request) {
  const auto count = fields.integer("logprobs");
  if (!count) return;
  if (*count < 0) {
    return fields.fail(invalid_argument(fmt::format("logprobs must be 0 or more, but is {}.", *count), "logprobs"));
  }
  request.sampling.logprobs = *count;
}

void judge_choices(FieldReader& fields, const CompletionRequest& request) {
  const auto prompts = static_cast<int64_t>(request.prompts.size());
  if (request.sampling.n < 1 || request.sampling.n > kMaxChoices || prompts * request.sampling.n <= kMaxChoices) return;
  fields.fail(
      invalid_argument(fmt::format("n is {} for each of {} prompts, but one request may have at most {} choices.",
                                   request.sampling.n, prompts, kMaxChoices),
                       "n"));
}

}  // namespace

Result<CompletionRequest> parse_completion_request(const Json& body, const RequestRules& rules) {
  FieldReader fields(body);
  CompletionRequest request;
  static_cast<GenerationFields&>(request) = read_generation_fields(fields, rules);
  read_max_tokens(fields, request, kDefaultMaxTokens);
  request.echo = fields.boolean("echo").value_or(false);
  // The engine gives at least one token, which the answer then leaves out.
  request.prompt_only = request.echo && request.sampling.max_tokens == 0;
  if (request.prompt_only) request.sampling.max_tokens = 1;
  request.add_special_tokens = fields.boolean("add_special_tokens").value_or(true);
  read_logprobs(fields, request);
  refuse_unsupported(fields, Endpoint::kCompletions);
  if (const Json* prompt = fields.find("prompt")) {
    auto prompts = read_prompts(*prompt, rules);
    if (prompts.ok()) {
      request.prompts = std::move(prompts).value();
    } else {
      fields.fail(prompts.error());
    }
  } else {
    fields.fail(invalid_argument(std::string(kPromptForms) + "; it is missing.", "prompt"));
  }
  judge_choices(fields, request);
  QUIRE_RETURN_IF_ERROR(finish_request(fields, request, rules));
  request.prompt_logprobs = request.sampling.prompt_logprobs.has_value();
  if (request.echo && !request.prompt_logprobs) request.sampling.prompt_logprobs = request.sampling.logprobs;
  return request;
}

}  // namespace quire

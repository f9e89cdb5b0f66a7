// The table of fields that are refused unless neutral, and of those that may be ignored.
#include "server/protocol/unsupported_fields.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "server/protocol/json_input.h"

namespace quire {

namespace {

using Json = nlohmann::ordered_json;

bool never(const Json&) { return false; }
bool is_false(const Json& value) { return value == false; }
bool is_one(const Json& value) { return value.is_number() && value.get<double>() == 1.0; }
bool is_empty_list(const Json& value) { return value.is_array() && value.empty(); }
bool is_empty_object(const Json& value) { return value.is_object() && value.empty(); }
bool is_empty_string(const Json& value) { return value.is_string() && value.get_ref<const std::string&>().empty(); }
bool is_text_format(const Json& value) { return value.is_object() && value.value("type", Json()) == "text"; }
bool is_no_tool_choice(const Json& value) { return value == "none" || value == "auto"; }
bool is_text_modality(const Json& value) { return value == Json::array({"text"}); }

enum Where : uint8_t { kBoth, kCompletionsOnly, kChatOnly };

struct UnbuiltField {
  const char* name;
  Where where;
  bool (*neutral)(const Json&);
  const char* neutral_value;
};

constexpr UnbuiltField kRefused[] = {
    {"best_of", kBoth, is_one, "1"},
    {"response_format", kBoth, is_text_format, "{\"type\": \"text\"}"},
    {"structured_outputs", kBoth, never, "null"},
    {"guided_json", kBoth, never, "null"},
    {"guided_regex", kBoth, never, "null"},
    {"guided_choice", kBoth, never, "null"},
    {"guided_grammar", kBoth, never, "null"},
    {"thinking_token_budget", kBoth, never, "null"},
    {"kv_transfer_params", kBoth, never, "null"},
    {"ec_transfer_params", kBoth, never, "null"},
    {"vllm_xargs", kBoth, is_empty_object, "{}"},
    {"lora", kBoth, is_empty_list, "[]"},
    {"lora_path", kBoth, never, "null"},
    {"lora_scale", kBoth, is_one, "1.0"},
    {"lora_weight", kBoth, is_one, "1.0"},
    {"lora_request", kBoth, never, "null"},
    {"adapter_id", kBoth, never, "null"},
    {"suffix", kCompletionsOnly, is_empty_string, "\"\""},
    {"prompt_embeds", kCompletionsOnly, never, "null"},
    {"tools", kChatOnly, is_empty_list, "[]"},
    {"tool_choice", kChatOnly, is_no_tool_choice, "\"none\""},
    {"functions", kChatOnly, is_empty_list, "[]"},
    {"function_call", kChatOnly, is_no_tool_choice, "\"none\""},
    {"reasoning_effort", kChatOnly, never, "null"},
    {"documents", kChatOnly, is_empty_list, "[]"},
    {"chat_template", kChatOnly, never, "null"},
    {"return_prompt_text", kChatOnly, is_false, "false"},
    {"return_token_offsets", kChatOnly, is_false, "false"},
    {"return_assistant_tokens_mask", kChatOnly, is_false, "false"},
    {"audio", kChatOnly, never, "null"},
    {"modalities", kChatOnly, is_text_modality, "[\"text\"]"},
    {"web_search_options", kChatOnly, never, "null"},
};

// They say who asks, how the answer is billed or grouped, or how something is done that does not apply here.
constexpr const char* kIgnored[] = {
    "user",
    "metadata",
    "store",
    "service_tier",
    "prediction",
    "parallel_tool_calls",
    "include_reasoning",
    "session_id",
    "safety_identifier",
    "prompt_cache_key",
    "stream_interval",
    "media_io_kwargs",
    "mm_processor_kwargs",
};

}  // namespace

void refuse_unsupported(FieldReader& fields, Endpoint endpoint) {
  const Where other = endpoint == Endpoint::kChat ? kCompletionsOnly : kChatOnly;
  for (const UnbuiltField& field : kRefused) {
    if (field.where == other) continue;
    const Json* value = fields.find(field.name);
    if (!value || field.neutral(*value)) continue;
    fields.fail(unsupported(fmt::format("{} is not supported: leave it out or send {} (it is {}).", field.name,
                                        field.neutral_value, excerpt(*value)),
                            field.name));
  }
  for (const char* name : kIgnored) fields.ignore(name);
}

}  // namespace quire

// What an OpenAI-compatible server sends back, read with the leniency that peers need.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/http_client.h"

namespace quire::cli {

/// One `data:` event of a streamed completion or chat completion.
struct StreamDelta {
  std::string text;
  bool has_tokens =
      false;  ///< it stands for generated tokens: a chat's opening role message and a usage message do not
  std::string finish_reason;
  std::optional<int64_t> prompt_tokens, completion_tokens;  ///< from `usage`
  std::string error;                                        ///< the server's message when the event is an error
};

/// An Error for text that is no JSON object.
Result<StreamDelta> parse_stream_delta(std::string_view data);

/// The server's own sentence in an answer that is no success, with the status; or why there is no answer.
std::string describe_failure(const HttpAnswer& answer);

/// What /v1/models says of one model.
struct ServedModel {
  std::string id;
  std::optional<int64_t> vocab_size;  ///< vocab_size, or meta.n_vocab as llama.cpp's server has it
  std::optional<int64_t> max_model_len;
};

/// The first model that the server lists (or the one named `wanted`); `client` must be idle.
Result<ServedModel> find_served_model(HttpClient& client, const std::string& path_prefix, const std::string& api_key,
                                      const std::string& wanted);

/// {"Authorization", "Bearer <key>"}, or nothing for an empty key.
std::vector<std::pair<std::string, std::string>> authorization(const std::string& api_key);

/// `flag_value`, else VLLM_API_KEY, QUIRE_API_KEY or OPENAI_API_KEY, the first that is set; "" for none.
std::string client_api_key(const std::string& flag_value);

}  // namespace quire::cli

// What an endpoint's answer looks like: one JSON object, or the chunks of a stream.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/async_llm.h"

namespace quire {

/// What all chunks and objects of one answer share.
struct ResponseInfo {
  std::string id;
  int64_t created = 0;  ///< seconds since 1970
  std::string model;
  uint64_t adapter_id = 0;                    ///< of the load that answers; 0: the base model
  std::vector<std::vector<int32_t>> prompts;  ///< token ids
  int64_t n = 1;                              ///< choices of each prompt: choice i answers prompts[i / n]
  bool return_token_ids = false;
  bool include_usage = false;
  bool continuous_usage_stats = false;
  std::function<std::string(int32_t)> token_name;  ///< a token's text in logprobs

  size_t choices() const { return prompts.size() * static_cast<size_t>(n); }
  size_t prompt_of(size_t choice) const { return choice / static_cast<size_t>(n); }
  /// The first choice of the same prompt, which has what concerns the prompt.
  size_t leader_of(size_t choice) const { return prompt_of(choice) * static_cast<size_t>(n); }
};

/// Builds one answer. Calls come one at a time, in the order of the outputs.
class ResponseFormat {
 public:
  explicit ResponseFormat(ResponseInfo info) : info_(std::move(info)) {}
  virtual ~ResponseFormat() = default;

  /// The whole answer: choices[i] is everything that choice i produced.
  virtual nlohmann::ordered_json whole(std::span<const TextOutput> choices) = 0;
  /// The chunks that open a choice, where the endpoint has some.
  virtual std::vector<nlohmann::ordered_json> opening(size_t choice) = 0;
  /// The chunk for an output; nothing where it has nothing to tell.
  virtual std::optional<nlohmann::ordered_json> chunk(size_t choice, const TextOutput& output) = 0;
  /// The last chunk of a stream with include_usage: no choices.
  nlohmann::ordered_json usage_chunk(std::span<const RequestUsage> usages) const;

  const ResponseInfo& info() const { return info_; }

 protected:
  /// The object's name in whole answers and in chunks.
  virtual const char* chunk_object() const = 0;
  /// {id, object, created, model, choices: []}
  nlohmann::ordered_json envelope(const char* object) const;
  /// The numbers of the choices, summed, and which load of an adapter they are of.
  virtual nlohmann::ordered_json usage(std::span<const RequestUsage> usages) const;
  /// Adds `usage` to a chunk as the stream options ask: null, the numbers so far, or not at all.
  void add_chunk_usage(nlohmann::ordered_json& chunk, const RequestUsage& usage) const;

  ResponseInfo info_;
};

/// Appends an output to what came before it.
void merge_output(TextOutput& total, TextOutput&& next);

/// Sums over all choices, of which each `n` have one prompt: {prompt_tokens, total_tokens, completion_tokens,
/// prompt_tokens_details: {cached_tokens}}. A prompt counts once.
nlohmann::ordered_json usage_json(std::span<const RequestUsage> usages, int64_t n = 1);

/// The stop string, the stop token's id, or null.
nlohmann::ordered_json stop_reason_json(const TextOutput& output);
/// "stop", "length", ... or null while it goes on.
nlohmann::ordered_json finish_reason_json(const TextOutput& output);

}  // namespace quire

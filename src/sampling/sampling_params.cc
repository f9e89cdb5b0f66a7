// Ranges of the sampling parameters. A value that is not a number fails every comparison, so each test names what is
// allowed.
#include "sampling/sampling_params.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

namespace quire {
namespace {

constexpr double kLowestTemperature = 0.01;
/// Every spelling of every word is looked up in the vocabulary.
constexpr size_t kMaxBadWordBytes = 4096;

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80                   ? 1
                          : lead >= 0xC2 && lead < 0xE0 ? 2
                          : (lead & 0xF0) == 0xE0       ? 3
                          : lead >= 0xF0 && lead < 0xF5 ? 4
                                                        : 0;
    if (length == 0 || i + length > text.size()) return false;
    for (size_t k = 1; k < length; ++k) {
      if ((static_cast<unsigned char>(text[i + k]) & 0xC0) != 0x80) return false;
    }
    i += length;
  }
  return true;
}

Status validate_logprobs(const std::optional<int64_t>& count, const char* name, int64_t max_logprobs) {
  if (!count) return {};
  if (*count < -1)
    return invalid_argument(
        fmt::format("{} must be 0 or more, or -1 for the whole vocabulary, but is {}.", name, *count), name);
  if (max_logprobs >= 0 && (*count < 0 || *count > max_logprobs)) {
    return invalid_argument(fmt::format("{} is {}, but at most {} are given; ask for fewer or raise --max-logprobs.",
                                        name, *count, max_logprobs),
                            name);
  }
  return {};
}

Status validate_ids(std::span<const int32_t> ids, const char* name, int64_t vocab_size) {
  for (const int32_t id : ids) {
    if (id >= 0 && id < vocab_size) continue;
    return invalid_argument(
        fmt::format("{} has token id {}, which is out of the vocabulary (0 to {}).", name, id, vocab_size - 1), name);
  }
  return {};
}

/// Strings that are looked for in the output, or kept out of it.
Status validate_strings(const std::vector<std::string>& strings, const char* name) {
  for (const std::string& text : strings) {
    if (text.empty()) return invalid_argument(fmt::format("{} must not contain an empty string.", name), name);
    if (!is_utf8(text)) return invalid_argument(fmt::format("{} must contain valid UTF-8 only.", name), name);
  }
  return {};
}

Status validate_bad_words(const std::vector<std::string>& words) {
  QUIRE_RETURN_IF_ERROR(validate_strings(words, "bad_words"));
  size_t bytes = 0;
  for (const std::string& word : words) bytes += word.size();
  if (bytes <= kMaxBadWordBytes) return {};
  return invalid_argument(
      fmt::format("bad_words has {} bytes of words; at most {} are allowed.", bytes, kMaxBadWordBytes), "bad_words");
}

/// A number must be in [low, high]; where `open_low`, above low.
struct Range {
  const char* name;
  double SamplingParams::*member;
  double low, high;
  bool open_low;
};

constexpr double kLargest = std::numeric_limits<double>::max();
constexpr Range kRanges[] = {
    {"temperature", &SamplingParams::temperature, 0, 2, false},
    {"top_p", &SamplingParams::top_p, 0, 1, true},
    {"min_p", &SamplingParams::min_p, 0, 1, false},
    {"presence_penalty", &SamplingParams::presence_penalty, -2, 2, false},
    {"frequency_penalty", &SamplingParams::frequency_penalty, -2, 2, false},
    {"repetition_penalty", &SamplingParams::repetition_penalty, 0, kLargest, true},
};

Status validate_ranges(const SamplingParams& params) {
  for (const Range& range : kRanges) {
    const double value = params.*range.member;
    if ((range.open_low ? value > range.low : value >= range.low) && value <= range.high) continue;
    const std::string allowed = range.high == kLargest ? fmt::format("above {} and finite", range.low)
                                : range.open_low       ? fmt::format("above {} and at most {}", range.low, range.high)
                                                       : fmt::format("between {} and {}", range.low, range.high);
    return invalid_argument(fmt::format("{} must be {}, but is {}.", range.name, allowed, value), range.name);
  }
  if (params.top_k >= -1) return {};
  return invalid_argument(fmt::format("top_k must be 1 or more, or 0 or -1 for all tokens, but is {}.", params.top_k),
                          "top_k");
}

Status validate_n(const SamplingParams& params) {
  if (params.n < 1 || params.n > kMaxChoices) {
    return invalid_argument(fmt::format("n must be between 1 and {}, but is {}.", kMaxChoices, params.n), "n");
  }
  if (params.n == 1 || params.use_beam_search || !params.greedy()) return {};
  return invalid_argument(
      fmt::format("n is {}, but with greedy sampling all choices are the same: raise temperature or leave out n.",
                  params.n),
      "n");
}

Status validate_lengths(const SamplingParams& params) {
  if (params.max_tokens && *params.max_tokens < 1) {
    return invalid_argument(fmt::format("max_tokens must be 1 or more, but is {}.", *params.max_tokens), "max_tokens");
  }
  if (params.min_tokens < 0) {
    return invalid_argument(fmt::format("min_tokens must be 0 or more, but is {}.", params.min_tokens), "min_tokens");
  }
  if (params.max_tokens && params.min_tokens > *params.max_tokens) {
    return invalid_argument(
        fmt::format("min_tokens must be at most max_tokens ({}), but is {}.", *params.max_tokens, params.min_tokens),
        "min_tokens");
  }
  const std::optional<int64_t>& kept = params.truncate_prompt_tokens;
  if (kept && *kept != -1 && *kept < 1) {
    return invalid_argument(
        fmt::format("truncate_prompt_tokens must be 1 or more, or -1 for what the context holds, but is {}.", *kept),
        "truncate_prompt_tokens");
  }
  return {};
}

Status validate_tokens(const SamplingParams& params, int64_t vocab_size) {
  QUIRE_RETURN_IF_ERROR(validate_ids(params.stop_token_ids, "stop_token_ids", vocab_size));
  QUIRE_RETURN_IF_ERROR(validate_ids(params.logprob_token_ids, "logprob_token_ids", vocab_size));
  if (!params.logprob_token_ids.empty() && !params.logprobs) {
    return invalid_argument("logprob_token_ids needs logprobs.", "logprob_token_ids");
  }
  for (const auto& [id, bias] : params.logit_bias) {
    QUIRE_RETURN_IF_ERROR(validate_ids({&id, 1}, "logit_bias", vocab_size));
    if (bias >= -100.0 && bias <= 100.0) continue;
    return invalid_argument(
        fmt::format("logit_bias must be between -100 and 100, but is {} for token id {}.", bias, id), "logit_bias");
  }
  if (!params.allowed_token_ids) return {};
  if (params.allowed_token_ids->empty()) {
    return invalid_argument("allowed_token_ids is empty: no token could be chosen; leave it out to allow all.",
                            "allowed_token_ids");
  }
  return validate_ids(*params.allowed_token_ids, "allowed_token_ids", vocab_size);
}

Status validate_beam_search(const SamplingParams& params, int64_t vocab_size) {
  if (!(params.length_penalty >= -kLargest && params.length_penalty <= kLargest)) {
    return invalid_argument(fmt::format("length_penalty must be finite, but is {}.", params.length_penalty),
                            "length_penalty");
  }
  if (!params.use_beam_search) {
    if (params.length_penalty == 1.0) return {};
    return invalid_argument("length_penalty needs use_beam_search.", "length_penalty");
  }
  const int64_t most = std::min(kMaxBeams, vocab_size / 2);
  if (params.n > most)
    return invalid_argument(fmt::format("n must be at most {} with use_beam_search, but is {}.", most, params.n), "n");
  const std::pair<const char*, bool> asked[] = {
      {"presence_penalty", params.presence_penalty != 0.0},
      {"frequency_penalty", params.frequency_penalty != 0.0},
      {"repetition_penalty", params.repetition_penalty != 1.0},
      {"logit_bias", !params.logit_bias.empty()},
      {"allowed_token_ids", params.allowed_token_ids.has_value()},
      {"bad_words", !params.bad_words.empty()},
      {"stop", !params.stop.empty()},
      {"stop_token_ids", !params.stop_token_ids.empty()},
      {"min_tokens", params.min_tokens > 0},
      {"repetition_detection", params.repetition_detection.has_value()},
      {"prompt_logprobs", params.prompt_logprobs.has_value()},
      {"logprob_token_ids", !params.logprob_token_ids.empty()},
  };
  for (const auto& [name, given] : asked) {
    if (given) return invalid_argument(fmt::format("{} does not go with use_beam_search.", name), name);
  }
  const int64_t found = 2 * params.n;
  if (params.logprobs.value_or(0) >= 0 && params.logprobs.value_or(0) <= found) return {};
  return invalid_argument(fmt::format("logprobs must be at most {} with use_beam_search and n {}, but is {}.", found,
                                      params.n, *params.logprobs),
                          "logprobs");
}

Status validate_repetition_detection(const RepetitionDetection& detection) {
  const auto refuse = [](const char* name, const char* range, int64_t value) {
    const std::string param = std::string("repetition_detection.") + name;
    return invalid_argument(fmt::format("{} must be {}, but is {}.", param, range, value), param);
  };
  if (detection.min_pattern_size < 1) return refuse("min_pattern_size", "1 or more", detection.min_pattern_size);
  if (detection.max_pattern_size < detection.min_pattern_size)
    return refuse("max_pattern_size", "at least min_pattern_size", detection.max_pattern_size);
  if (detection.min_count < 2) return refuse("min_count", "2 or more", detection.min_count);
  return {};
}

}  // namespace

std::optional<LogprobsMode> parse_logprobs_mode(std::string_view name) {
  if (name == "raw_logprobs") return LogprobsMode::kRawLogprobs;
  if (name == "processed_logprobs") return LogprobsMode::kProcessedLogprobs;
  if (name == "raw_logits") return LogprobsMode::kRawLogits;
  if (name == "processed_logits") return LogprobsMode::kProcessedLogits;
  return std::nullopt;
}

double effective_temperature(const SamplingParams& params) { return std::max(params.temperature, kLowestTemperature); }

Status validate(const SamplingParams& params, const SamplingLimits& limits) {
  QUIRE_RETURN_IF_ERROR(validate_ranges(params));
  QUIRE_RETURN_IF_ERROR(validate_n(params));
  QUIRE_RETURN_IF_ERROR(validate_lengths(params));
  QUIRE_RETURN_IF_ERROR(validate_logprobs(params.logprobs, "logprobs", limits.max_logprobs));
  QUIRE_RETURN_IF_ERROR(validate_logprobs(params.prompt_logprobs, "prompt_logprobs", limits.max_logprobs));
  QUIRE_RETURN_IF_ERROR(validate_tokens(params, limits.vocab_size));
  QUIRE_RETURN_IF_ERROR(validate_strings(params.stop, "stop"));
  QUIRE_RETURN_IF_ERROR(validate_bad_words(params.bad_words));
  QUIRE_RETURN_IF_ERROR(validate_beam_search(params, limits.vocab_size));
  return params.repetition_detection ? validate_repetition_detection(*params.repetition_detection) : Status();
}

}  // namespace quire

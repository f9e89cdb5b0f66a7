// Ranges of the sampling parameters. A value that is not a number fails every comparison, so each test names what is
// allowed.
#include "sampling/sampling_params.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace quire {
namespace {

constexpr double kLowestTemperature = 0.01;

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

Status validate_stops(const SamplingParams& params) {
  for (const std::string& stop : params.stop) {
    if (stop.empty()) return invalid_argument("stop must not contain an empty string.", "stop");
    if (!is_utf8(stop)) return invalid_argument("stop must contain valid UTF-8 only.", "stop");
  }
  for (const int32_t id : params.stop_token_ids) {
    if (id < 0)
      return invalid_argument(fmt::format("stop_token_ids must be 0 or more, but has {}.", id), "stop_token_ids");
  }
  return {};
}

}  // namespace

double effective_temperature(const SamplingParams& params) { return std::max(params.temperature, kLowestTemperature); }

Status validate(const SamplingParams& params, int64_t max_logprobs) {
  if (!(params.temperature >= 0.0 && params.temperature <= 2.0)) {
    return invalid_argument(fmt::format("temperature must be between 0 and 2, but is {}.", params.temperature),
                            "temperature");
  }
  if (!(params.top_p > 0.0 && params.top_p <= 1.0)) {
    return invalid_argument(fmt::format("top_p must be above 0 and at most 1, but is {}.", params.top_p), "top_p");
  }
  if (params.top_k < -1) {
    return invalid_argument(fmt::format("top_k must be 1 or more, or 0 or -1 for all tokens, but is {}.", params.top_k),
                            "top_k");
  }
  if (params.max_tokens && *params.max_tokens < 1) {
    return invalid_argument(fmt::format("max_tokens must be 1 or more, but is {}.", *params.max_tokens), "max_tokens");
  }
  QUIRE_RETURN_IF_ERROR(validate_logprobs(params.logprobs, "logprobs", max_logprobs));
  QUIRE_RETURN_IF_ERROR(validate_logprobs(params.prompt_logprobs, "prompt_logprobs", max_logprobs));
  return validate_stops(params);
}

}  // namespace quire

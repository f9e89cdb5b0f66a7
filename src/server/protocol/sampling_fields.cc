// Tables of the plain fields, and a function for each that has a shape of its own.
#include "server/protocol/sampling_fields.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "server/protocol/generation_fields.h"
#include "server/protocol/json_input.h"

namespace quire {

namespace {

using Json = nlohmann::ordered_json;

// More would let one request slow the thread that serves all streams' text.
constexpr size_t kMaxStopStrings = 64;
constexpr size_t kMaxStopBytes = 1024;
constexpr size_t kMaxStopTokenIds = 1024;
constexpr size_t kMaxBadWords = 1024;

template <typename T>
struct Field {
  const char* name;
  T SamplingParams::*member;
};

constexpr Field<double> kNumbers[] = {
    {"temperature", &SamplingParams::temperature},
    {"top_p", &SamplingParams::top_p},
    {"min_p", &SamplingParams::min_p},
    {"presence_penalty", &SamplingParams::presence_penalty},
    {"frequency_penalty", &SamplingParams::frequency_penalty},
    {"repetition_penalty", &SamplingParams::repetition_penalty},
    {"length_penalty", &SamplingParams::length_penalty},
};
constexpr Field<int64_t> kIntegers[] = {
    {"n", &SamplingParams::n},
    {"top_k", &SamplingParams::top_k},
    {"min_tokens", &SamplingParams::min_tokens},
};
constexpr Field<std::optional<int64_t>> kOptionalIntegers[] = {
    {"seed", &SamplingParams::seed},
    {"prompt_logprobs", &SamplingParams::prompt_logprobs},
    {"truncate_prompt_tokens", &SamplingParams::truncate_prompt_tokens},
};
constexpr Field<bool> kBooleans[] = {
    {"ignore_eos", &SamplingParams::ignore_eos},
    {"include_stop_str_in_output", &SamplingParams::include_stop_str_in_output},
    {"skip_special_tokens", &SamplingParams::skip_special_tokens},
    {"spaces_between_special_tokens", &SamplingParams::spaces_between_special_tokens},
    {"use_beam_search", &SamplingParams::use_beam_search},
};

/// Refuses a list that has more than `most` entries, which the sentence calls `what`.
void limit_count(FieldReader& fields, const char* name, const char* what, size_t count, size_t most) {
  if (count <= most) return;
  fields.fail(invalid_argument(fmt::format("{} has {} {}; at most {} are allowed.", name, count, what, most), name));
}

/// A list of token ids below the vocabulary's size; nothing where the field is absent or wrong.
std::optional<std::vector<int32_t>> read_ids(FieldReader& fields, const char* name, const RequestRules& rules,
                                             size_t most) {
  const Json* ids = fields.find(name);
  if (!ids) return std::nullopt;
  auto read = read_token_ids(*ids, name, rules.vocab_size);
  if (!read.ok()) {
    fields.fail(read.error());
    return std::nullopt;
  }
  limit_count(fields, name, "ids", read->size(), most);
  if (read->size() > most) return std::nullopt;
  return std::move(read).value();
}

void read_stops(FieldReader& fields, SamplingParams& sampling, const RequestRules& rules) {
  sampling.stop = fields.strings("stop");
  limit_count(fields, "stop", "strings", sampling.stop.size(), kMaxStopStrings);
  for (const std::string& stop : sampling.stop) {
    if (stop.size() <= kMaxStopBytes) continue;
    fields.fail(invalid_argument(fmt::format("A stop string is longer than {} bytes.", kMaxStopBytes), "stop"));
  }
  if (auto ids = read_ids(fields, "stop_token_ids", rules, kMaxStopTokenIds)) sampling.stop_token_ids = std::move(*ids);
}

void read_bad_words(FieldReader& fields, SamplingParams& sampling) {
  const Json* words = fields.find("bad_words");
  if (!words) return;
  if (!words->is_array()) return fields.fail("bad_words", "a list of strings", *words);
  sampling.bad_words = fields.strings("bad_words");
  limit_count(fields, "bad_words", "words", sampling.bad_words.size(), kMaxBadWords);
}

/// An object whose keys are token ids.
void read_logit_bias(FieldReader& fields, SamplingParams& sampling) {
  const Json* biases = fields.object("logit_bias");
  if (!biases) return;
  for (const auto& [key, bias] : biases->items()) {
    int32_t token = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (error != std::errc() || end != key.data() + key.size()) {
      return fields.fail(invalid_argument(
          fmt::format("logit_bias must have token ids for keys, but has {}.", excerpt(Json(key))), "logit_bias"));
    }
    if (!bias.is_number()) {
      return fields.fail(invalid_argument(
          fmt::format("logit_bias must have numbers for values, but has {} for token id {}.", excerpt(bias), token),
          "logit_bias"));
    }
    sampling.logit_bias[token] = bias.get<double>();
  }
}

void read_truncation_side(FieldReader& fields, SamplingParams& sampling) {
  const auto side = fields.string("truncation_side");
  if (!side) return;
  using Side = SamplingParams::TruncationSide;
  if (*side != "left" && *side != "right") return fields.fail("truncation_side", "\"left\" or \"right\"", *side);
  sampling.truncation_side = *side == "left" ? Side::kLeft : Side::kRight;
}

void read_repetition_detection(FieldReader& fields, SamplingParams& sampling) {
  const Json* object = fields.object("repetition_detection");
  if (!object) return;
  FieldReader inner(*object, "repetition_detection.");
  RepetitionDetection detection;
  const auto read = [&](const char* name, int64_t& value) {
    if (const auto given = inner.integer(name)) value = *given;
  };
  read("max_pattern_size", detection.max_pattern_size);
  read("min_pattern_size", detection.min_pattern_size);
  read("min_count", detection.min_count);
  if (const auto status = inner.status(); !status.ok()) return fields.fail(status.error());
  sampling.repetition_detection = detection;
}

}  // namespace

SamplingParams read_sampling_fields(FieldReader& fields, const RequestRules& rules) {
  SamplingParams sampling = rules.defaults;
  for (const auto& field : kNumbers) {
    if (const auto value = fields.number(field.name)) sampling.*field.member = *value;
  }
  for (const auto& field : kIntegers) {
    if (const auto value = fields.integer(field.name)) sampling.*field.member = *value;
  }
  for (const auto& field : kOptionalIntegers) {
    if (const auto value = fields.integer(field.name)) sampling.*field.member = *value;
  }
  if (sampling.seed == -1) sampling.seed.reset();
  for (const auto& field : kBooleans) {
    if (const auto value = fields.boolean(field.name)) sampling.*field.member = *value;
  }
  // The model's default for sampling is none for a search.
  if (sampling.use_beam_search && !fields.find("repetition_penalty")) sampling.repetition_penalty = 1.0;
  const auto vocabulary = static_cast<size_t>(rules.vocab_size);
  sampling.allowed_token_ids = read_ids(fields, "allowed_token_ids", rules, vocabulary);
  if (auto ids = read_ids(fields, "logprob_token_ids", rules, vocabulary)) sampling.logprob_token_ids = std::move(*ids);
  read_stops(fields, sampling, rules);
  read_bad_words(fields, sampling);
  read_logit_bias(fields, sampling);
  read_truncation_side(fields, sampling);
  read_repetition_detection(fields, sampling);
  return sampling;
}

}  // namespace quire

// From SampledToken to JSON.
#include "server/response/logprobs_format.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace quire {

using Json = nlohmann::ordered_json;

namespace {

constexpr double kFloor = -9999.0;

Json bytes_of(const std::string& text) {
  Json bytes = Json::array();
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

Json chat_entry(const TokenLogprob& logprob, const TokenName& name) {
  const std::string token = name(logprob.token);
  return {{"token", token}, {"logprob", wire_logprob(logprob.logprob)}, {"bytes", bytes_of(token)}};
}

}  // namespace

double wire_logprob(float logprob) {
  if (std::isnan(logprob)) return kFloor;
  return std::clamp(static_cast<double>(logprob), kFloor, static_cast<double>(std::numeric_limits<float>::max()));
}

int64_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

CompletionLogprobs::CompletionLogprobs(const TokenName& name, int64_t& offset)
    : name_(name),
      offset_(offset),
      offsets_(Json::array()),
      logprobs_(Json::array()),
      names_(Json::array()),
      tops_(Json::array()) {}

void CompletionLogprobs::add(int32_t token, std::span<const TokenLogprob> logprobs, const std::string* text) {
  offsets_.push_back(offset_);
  if (text != nullptr) offset_ += count_characters(*text);
  names_.push_back(name_(token));
  if (logprobs.empty()) {
    logprobs_.push_back(nullptr);
    tops_.push_back(nullptr);
    return;
  }
  logprobs_.push_back(wire_logprob(logprobs[0].logprob));
  Json top = Json::object();
  for (const TokenLogprob& logprob : logprobs) top[name_(logprob.token)] = wire_logprob(logprob.logprob);
  tops_.push_back(std::move(top));
}

void CompletionLogprobs::add_prompt(std::span<const int32_t> tokens, std::span<const SampledToken> logprobs,
                                    std::span<const std::string> texts) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const bool scored = i > 0 && i - 1 < logprobs.size();
    add(tokens[i], scored ? std::span(logprobs[i - 1].logprobs) : std::span<const TokenLogprob>(),
        i < texts.size() ? &texts[i] : nullptr);
  }
}

void CompletionLogprobs::add_output(const TextOutput& output) {
  for (size_t i = 0; i < output.tokens.size(); ++i) {
    add(output.tokens[i].token, output.tokens[i].logprobs,
        i < output.token_texts.size() ? &output.token_texts[i] : nullptr);
  }
}

Json CompletionLogprobs::json() && {
  return {{"text_offset", std::move(offsets_)},
          {"token_logprobs", std::move(logprobs_)},
          {"tokens", std::move(names_)},
          {"top_logprobs", std::move(tops_)}};
}

Json chat_logprobs(const TextOutput& output, const TokenName& name) {
  Json content = Json::array();
  for (const SampledToken& token : output.tokens) {
    if (token.logprobs.empty()) continue;
    Json entry = chat_entry(token.logprobs[0], name);
    Json top = Json::array();
    for (size_t i = 1; i < token.logprobs.size(); ++i) top.push_back(chat_entry(token.logprobs[i], name));
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}};
}

Json prompt_logprobs_json(std::span<const SampledToken> entries, const TokenName& name) {
  Json list = Json::array({nullptr});
  for (const SampledToken& entry : entries) {
    Json tokens = Json::object();
    for (const TokenLogprob& logprob : entry.logprobs) {
      tokens[std::to_string(logprob.token)] = {
          {"logprob", wire_logprob(logprob.logprob)}, {"rank", logprob.rank}, {"decoded_token", name(logprob.token)}};
    }
    list.push_back(std::move(tokens));
  }
  return list;
}

}  // namespace quire

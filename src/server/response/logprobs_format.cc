// From SampledToken to JSON.
#include "server/response/logprobs_format.h"

#include <algorithm>
#include <cmath>

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
  return std::clamp(static_cast<double>(logprob), kFloor, 0.0);
}

int64_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

Json completion_logprobs(const TextOutput& output, const TokenName& name, int64_t& offset) {
  Json offsets = Json::array(), logprobs = Json::array(), names = Json::array(), tops = Json::array();
  for (size_t i = 0; i < output.tokens.size(); ++i) {
    const SampledToken& token = output.tokens[i];
    offsets.push_back(offset);
    if (i < output.token_texts.size()) offset += count_characters(output.token_texts[i]);
    names.push_back(name(token.token));
    if (token.logprobs.empty()) {
      logprobs.push_back(nullptr);
      tops.push_back(nullptr);
      continue;
    }
    logprobs.push_back(wire_logprob(token.logprobs[0].logprob));
    Json top = Json::object();
    for (const TokenLogprob& logprob : token.logprobs) top[name(logprob.token)] = wire_logprob(logprob.logprob);
    tops.push_back(std::move(top));
  }
  return {{"text_offset", std::move(offsets)},
          {"token_logprobs", std::move(logprobs)},
          {"tokens", std::move(names)},
          {"top_logprobs", std::move(tops)}};
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

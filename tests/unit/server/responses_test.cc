// Answers: the shapes of section and chunk objects, logprobs as valid JSON, errors in OpenAI's shape.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "server/protocol/json_input.h"
#include "server/response/chat_format.h"
#include "server/response/completion_format.h"
#include "server/response/error_response.h"
#include "server/response/logprobs_format.h"
#include "server/stats_log.h"

namespace quire {
namespace {

using Json = nlohmann::ordered_json;

ResponseInfo info() {
  ResponseInfo info;
  info.id = "cmpl-1";
  info.model = "m";
  info.prompts = {{1, 2, 3}};
  info.token_name = [](int32_t id) { return "t" + std::to_string(id); };
  return info;
}

TextOutput output(const std::string& text, FinishReason reason = FinishReason::kNone) {
  TextOutput output;
  output.text = text;
  output.token_ids = {7};
  output.tokens = {{7, {{7, -0.25f, 1}, {7, -0.25f, 1}, {9, -3.0f, 2}}}};
  output.token_texts = {text};
  output.finish_reason = reason;
  output.usage.prompt_tokens = 3;
  output.usage.completion_tokens = 1;
  return output;
}

TEST(Responses, SAMP_16_LogprobsAreAlwaysJson) {
  EXPECT_EQ(wire_logprob(-std::numeric_limits<float>::infinity()), -9999.0);
  EXPECT_EQ(wire_logprob(std::numeric_limits<float>::quiet_NaN()), -9999.0);
  EXPECT_EQ(wire_logprob(-0.5f), -0.5);
  EXPECT_EQ(wire_logprob(12.5f), 12.5);  // a logit
  EXPECT_TRUE(std::isfinite(wire_logprob(std::numeric_limits<float>::infinity())));
}

TEST(Responses, STRM_04_FinishReasonIsNullUntilTheEnd) {
  ChatFormat chat(info(), false, false);
  const Json first = chat.opening(0).at(0);
  EXPECT_EQ(first["object"], "chat.completion.chunk");
  EXPECT_EQ(first["choices"][0]["delta"], (Json{{"role", "assistant"}, {"content", ""}}));
  EXPECT_TRUE(first["choices"][0]["finish_reason"].is_null());
  const Json middle = *chat.chunk(0, output("a"));
  EXPECT_EQ(middle["choices"][0]["delta"]["content"], "a");
  EXPECT_TRUE(middle["choices"][0]["finish_reason"].is_null());
  const Json last = *chat.chunk(0, output("", FinishReason::kStop));
  EXPECT_EQ(last["choices"][0]["finish_reason"], "stop");
  EXPECT_TRUE(last["choices"][0]["delta"].empty());
}

TEST(Responses, STRM_05_UsageInChunks) {
  CompletionFormat without(info(), {});
  EXPECT_FALSE(without.chunk(0, output("a"))->contains("usage"));
  ResponseInfo with_usage = info();
  with_usage.include_usage = true;
  CompletionFormat with(with_usage, {});
  EXPECT_TRUE((*with.chunk(0, output("a")))["usage"].is_null());
  const RequestUsage usage = output("a").usage;
  const Json last = with.usage_chunk({&usage, 1});
  EXPECT_TRUE(last["choices"].is_array() && last["choices"].empty());
  EXPECT_EQ(last["usage"]["total_tokens"], 4);
  with_usage.continuous_usage_stats = true;
  CompletionFormat continuous(with_usage, {});
  EXPECT_EQ((*continuous.chunk(0, output("a")))["usage"]["completion_tokens"], 1);
}

TEST(Responses, EmptyDeltasAreSkippedUnlessTheyTellTokens) {
  CompletionFormat plain(info(), {});
  EXPECT_FALSE(plain.chunk(0, output("")).has_value());
  CompletionFormat logprobs(info(), {.logprobs = true});
  EXPECT_TRUE(logprobs.chunk(0, output("")).has_value());
}

TEST(Responses, CompletionLogprobsKeepOffsetsInCharacters) {
  CompletionFormat format(info(), {.logprobs = true});
  format.chunk(0, output("\xc3\xa4\xc3\xa4"));  // two characters in four bytes
  const Json logprobs = (*format.chunk(0, output("b")))["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["text_offset"], Json::array({2}));
  EXPECT_EQ(logprobs["tokens"], Json::array({"t7"}));
  EXPECT_EQ(logprobs["top_logprobs"][0], (Json{{"t7", -0.25}, {"t9", -3.0}}));
}

TEST(Responses, ChatLogprobs) {
  const Json content = chat_logprobs(output("x"), info().token_name)["content"];
  ASSERT_EQ(content.size(), 1u);
  EXPECT_EQ(content[0]["token"], "t7");
  EXPECT_EQ(content[0]["bytes"], Json::array({'t', '7'}));
  EXPECT_EQ(content[0]["top_logprobs"].size(), 2u);
}

TEST(Responses, PromptLogprobsBeginWithNull) {
  const Json list = prompt_logprobs_json(output("x").tokens, info().token_name);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_TRUE(list[0].is_null());
  EXPECT_EQ(list[1]["9"], (Json{{"logprob", -3.0}, {"rank", 2}, {"decoded_token", "t9"}}));
}

TEST(Responses, TokenIdsOfThePromptComeOnce) {
  ResponseInfo with_ids = info();
  with_ids.return_token_ids = true;
  CompletionFormat format(with_ids, {});
  EXPECT_EQ((*format.chunk(0, output("a")))["choices"][0]["prompt_token_ids"], Json::array({1, 2, 3}));
  const Json second = (*format.chunk(0, output("b")))["choices"][0];
  EXPECT_FALSE(second.contains("prompt_token_ids"));
  EXPECT_EQ(second["token_ids"], Json::array({7}));
}

TEST(Responses, WholeAnswers) {
  TextOutput total;
  merge_output(total, output("a"));
  merge_output(total, output("b", FinishReason::kLength));
  ChatFormat chat(info(), true, false);
  const Json answer = chat.whole({&total, 1});
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["choices"][0]["message"]["content"], "ab");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(answer["choices"][0]["logprobs"]["content"].size(), 2u);
  total.stop_string = "END";
  EXPECT_EQ(chat.whole({&total, 1})["choices"][0]["stop_reason"], "END");
}

ResponseInfo two_prompts(int64_t n) {
  ResponseInfo two = info();
  two.prompts = {{1, 2, 3}, {4, 5}};
  two.n = n;
  return two;
}

TEST(Responses, STRM_12_APromptCountsOnceForAllItsChoices) {
  CompletionFormat format(two_prompts(2), {});
  std::vector<TextOutput> choices(4, output("a", FinishReason::kStop));
  choices[2].usage.prompt_tokens = choices[3].usage.prompt_tokens = 2;
  choices[1].usage.cached_tokens = choices[3].usage.cached_tokens = 2;  // the pages of choices 0 and 2
  const Json answer = format.whole(choices);
  ASSERT_EQ(answer["choices"].size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(answer["choices"][i]["index"], i);
  EXPECT_EQ(answer["usage"], (Json{{"prompt_tokens", 5},
                                   {"total_tokens", 9},
                                   {"completion_tokens", 4},
                                   {"prompt_tokens_details", {{"cached_tokens", 0}}}}));
}

TEST(Responses, PromptLogprobsAreThoseOfAllChoices) {
  CompletionFormat format(two_prompts(2), {.prompt_logprobs = true});
  std::vector<TextOutput> choices(4, output("a", FinishReason::kStop));
  choices[2].prompt_logprobs = {{5, {{5, -1.0f, 1}}}};
  const Json answer = format.whole(choices);
  EXPECT_EQ(answer["choices"][2]["prompt_logprobs"].size(), 2u);
  EXPECT_EQ(answer["choices"][3]["prompt_logprobs"], answer["choices"][2]["prompt_logprobs"]);
  EXPECT_EQ(answer["choices"][0]["prompt_logprobs"], Json::array({nullptr}));
}

CompletionFormat::Options echo_options(bool prompt_only) {
  CompletionFormat::Options options;
  options.logprobs = true;
  options.prompt_only = prompt_only;
  options.echoed = {{"\xc3\xa4 bc", {"\xc3\xa4", " b", "c"}}};
  return options;
}

TextOutput with_prompt_logprobs(TextOutput output) {
  output.prompt_logprobs = {{2, {{2, -1.0f, 1}}}, {3, {{3, -2.0f, 4}, {8, -0.5f, 1}}}};
  return output;
}

TEST(Responses, EchoBeginsTheTextAndTheLogprobs) {
  CompletionFormat format(info(), echo_options(false));
  const TextOutput total = with_prompt_logprobs(output("d", FinishReason::kStop));
  const Json choice = format.whole({&total, 1})["choices"][0];
  EXPECT_EQ(choice["text"], "\xc3\xa4 bcd");
  const Json& logprobs = choice["logprobs"];
  EXPECT_EQ(logprobs["tokens"], Json::array({"t1", "t2", "t3", "t7"}));
  EXPECT_EQ(logprobs["text_offset"], Json::array({0, 1, 3, 4}));
  EXPECT_EQ(logprobs["token_logprobs"], Json::array({nullptr, -1.0, -2.0, -0.25}));
  EXPECT_EQ(logprobs["top_logprobs"][2], (Json{{"t3", -2.0}, {"t8", -0.5}}));
  EXPECT_FALSE(choice.contains("prompt_logprobs"));
}

TEST(Responses, EchoStreamsAsItIsInOnePiece) {
  CompletionFormat format(info(), echo_options(false));
  const Json first = (*format.chunk(0, with_prompt_logprobs(output("d"))))["choices"][0];
  EXPECT_EQ(first["text"], "\xc3\xa4 bcd");
  EXPECT_EQ(first["logprobs"]["text_offset"], Json::array({0, 1, 3, 4}));
  const Json second = (*format.chunk(0, output("e", FinishReason::kLength)))["choices"][0];
  EXPECT_EQ(second["text"], "e");
  EXPECT_EQ(second["logprobs"]["text_offset"], Json::array({5}));
}

TEST(Responses, EchoAloneLeavesTheOutputOut) {
  CompletionFormat format(info(), echo_options(true));
  const TextOutput total = with_prompt_logprobs(output("d", FinishReason::kStop));
  const Json answer = format.whole({&total, 1});
  EXPECT_EQ(answer["choices"][0]["text"], "\xc3\xa4 bc");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(answer["choices"][0]["logprobs"]["tokens"].size(), 3u);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 0);
}

TEST(Responses, RepetitionIsAReason) {
  CompletionFormat format(info(), {});
  const Json choice = (*format.chunk(0, output("a", FinishReason::kRepetition)))["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "repetition");
  EXPECT_EQ(choice["stop_reason"], "repetition_detected");
}

TEST(Responses, ChatEchoIsAChunkOfItsOwn) {
  ChatFormat chat(info(), false, false, "An apple");
  const std::vector<Json> opening = chat.opening(0);
  ASSERT_EQ(opening.size(), 2u);
  EXPECT_EQ(opening[1]["choices"][0]["delta"], (Json{{"content", "An apple"}}));
  const TextOutput total = output(" a day", FinishReason::kStop);
  EXPECT_EQ(chat.whole({&total, 1})["choices"][0]["message"]["content"], "An apple a day");
}

TEST(Responses, ErrorShape) {
  EXPECT_EQ(error_body(invalid_argument("no", "top_p")),
            (Json{{"error", {{"message", "no"}, {"type", "BadRequestError"}, {"param", "top_p"}, {"code", 400}}}}));
  const Json unknown = error_body(not_found("gone", "model"));
  EXPECT_EQ(unknown["error"]["code"], "model_not_found");
  EXPECT_EQ(error_response(not_found("gone", "model")).status, 404);
  EXPECT_TRUE(error_body(internal_error("x"))["error"]["param"].is_null());
}

TEST(StatsLog, OnlyWithTraffic) {
  EngineStats before, after;
  EXPECT_FALSE(stats_line(before, after, 10).has_value());
  after.generation_tokens = 25;
  EXPECT_NE(stats_line(before, after, 10)->find("Avg generation throughput: 2.5 tokens/s"), std::string::npos);
}

}  // namespace
}  // namespace quire

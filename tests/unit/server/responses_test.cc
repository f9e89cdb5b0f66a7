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
}

TEST(Responses, STRM_04_FinishReasonIsNullUntilTheEnd) {
  ChatFormat chat(info(), false, false);
  const Json first = *chat.first_chunk(0);
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
  CompletionFormat without(info(), false, false);
  EXPECT_FALSE(without.chunk(0, output("a"))->contains("usage"));
  ResponseInfo with_usage = info();
  with_usage.include_usage = true;
  CompletionFormat with(with_usage, false, false);
  EXPECT_TRUE((*with.chunk(0, output("a")))["usage"].is_null());
  const RequestUsage usage = output("a").usage;
  const Json last = with.usage_chunk({&usage, 1});
  EXPECT_TRUE(last["choices"].is_array() && last["choices"].empty());
  EXPECT_EQ(last["usage"]["total_tokens"], 4);
  with_usage.continuous_usage_stats = true;
  CompletionFormat continuous(with_usage, false, false);
  EXPECT_EQ((*continuous.chunk(0, output("a")))["usage"]["completion_tokens"], 1);
}

TEST(Responses, EmptyDeltasAreSkippedUnlessTheyTellTokens) {
  CompletionFormat plain(info(), false, false);
  EXPECT_FALSE(plain.chunk(0, output("")).has_value());
  CompletionFormat logprobs(info(), true, false);
  EXPECT_TRUE(logprobs.chunk(0, output("")).has_value());
}

TEST(Responses, CompletionLogprobsKeepOffsetsInCharacters) {
  CompletionFormat format(info(), true, false);
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
  CompletionFormat format(with_ids, false, false);
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

// What requests are refused, with which field named, and what the accepted ones mean.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "server/protocol/chat_request.h"
#include "server/protocol/completion_request.h"
#include "server/protocol/json_input.h"
#include "server/protocol/tokenize_request.h"

namespace quire {
namespace {

RequestRules rules() {
  RequestRules rules;
  rules.vocab_size = 1000;
  rules.max_logprobs = 20;
  return rules;
}

Result<CompletionRequest> completion(const std::string& fields) {
  const auto body = parse_json_object(R"({"prompt": "a")" + (fields.empty() ? "" : ", " + fields) + "}");
  if (!body.ok()) return body.error();
  return parse_completion_request(body.value(), rules());
}

Result<ChatRequest> chat(const std::string& fields) {
  const auto body = parse_json_object(R"({"messages": [{"role": "user", "content": "hi"}])" +
                                      (fields.empty() ? "" : ", " + fields) + "}");
  if (!body.ok()) return body.error();
  return parse_chat_request(body.value(), rules());
}

void expect_refused(const std::string& fields, const std::string& param) {
  const auto text = completion(fields);
  ASSERT_FALSE(text.ok()) << fields;
  EXPECT_EQ(text.error().param, param) << fields << ": " << text.error().message;
  EXPECT_NE(text.error().message.find(param), std::string::npos) << text.error().message;
  const auto talk = chat(fields);
  ASSERT_FALSE(talk.ok()) << fields;
  EXPECT_EQ(talk.error().param, param) << fields;
}

Result<CompletionRequest> prompt_of(const std::string& json) {
  return parse_completion_request(*parse_json_object(R"({"prompt": )" + json + "}"), rules());
}

TEST(Sampling, SAMP_05_NonFiniteNumbersAreNoJson) {
  for (const char* value : {"NaN", "Infinity", "-Infinity", "1e999", "-1e999"}) {
    for (const char* field : {"temperature", "repetition_penalty"}) {
      EXPECT_FALSE(completion('"' + std::string(field) + "\": " + value).ok()) << field << " " << value;
    }
  }
}

TEST(Sampling, EveryValueIsJudgedByItsType) {
  for (const char* field :
       {"temperature", "top_p", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty"}) {
    for (const char* value : {"true", "\"0.7\"", "[]", "{}"}) {
      expect_refused('"' + std::string(field) + "\": " + value, field);
    }
  }
  for (const char* field : {"n", "top_k", "min_tokens", "seed", "prompt_logprobs", "truncate_prompt_tokens",
                            "max_tokens", "max_completion_tokens", "priority"}) {
    for (const char* value : {"true", "\"7\"", "1.5", "1.0", "[1]", "9223372036854775808"}) {
      expect_refused('"' + std::string(field) + "\": " + value, field);
    }
  }
  for (const char* field : {"ignore_eos", "include_stop_str_in_output", "skip_special_tokens",
                            "spaces_between_special_tokens", "echo", "stream", "return_token_ids"}) {
    for (const char* value : {"1", "0", "\"true\"", "[]"}) {
      expect_refused('"' + std::string(field) + "\": " + value, field);
    }
  }
  for (const char* field : {"stop_token_ids", "allowed_token_ids", "logprob_token_ids"}) {
    for (const char* value : {"5", "[true]", "[1.0]", "[\"1\"]", "[-1]", "[1000]", "[18446744073709551615]", "{}"}) {
      expect_refused('"' + std::string(field) + "\": " + value, field);
    }
  }
  for (const char* value : {"\"the\"", "[1]", "[\"a\", \"\"]", "{}"}) {
    expect_refused("\"bad_words\": " + std::string(value), "bad_words");
  }
  for (const char* value : {"5", "{}", "[5]", "[\"\"]", "true"}) {
    expect_refused("\"stop\": " + std::string(value), "stop");
  }
  expect_refused(R"("truncation_side": "middle")", "truncation_side");
  expect_refused(R"("truncation_side": 1)", "truncation_side");
  expect_refused(R"("allowed_token_ids": [])", "allowed_token_ids");
}

TEST(Sampling, SAMP_18_LogitBias) {
  for (const char* bias :
       {R"({"191222": -100})", R"({"-1": 5})", R"({"abc": 1})", R"({"5": 1000})", R"({"5": true})", R"({"5": "1"})",
        R"({"5.0": 1})", R"({" 5": 1})", R"({"": 1})", R"({"99999999999999999999": 1})", "[]", "5"}) {
    expect_refused("\"logit_bias\": " + std::string(bias), "logit_bias");
  }
  const auto request = completion(R"("logit_bias": {"5": -100, "999": 2.5})");
  EXPECT_EQ(request->sampling.logit_bias, (std::map<int32_t, double>{{5, -100.0}, {999, 2.5}}));
}

TEST(Sampling, SAMP_25_ChoicesAreLimited) {
  expect_refused(R"("n": 1000000)", "n");
  expect_refused(R"("n": 0)", "n");
  expect_refused(R"("n": 2, "temperature": 0)", "n");
  std::string prompts = R"({"n": 9000, "prompt": ["a")";
  EXPECT_EQ(parse_completion_request(*parse_json_object(prompts + ", \"b\"]}"), rules()).error().param, "n");
  EXPECT_TRUE(parse_completion_request(*parse_json_object(prompts + "]}"), rules()).ok());
}

TEST(Sampling, RepetitionDetection) {
  const auto request = completion(R"("repetition_detection": {"max_pattern_size": 4, "min_count": 3})");
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->sampling.repetition_detection->max_pattern_size, 4);
  EXPECT_EQ(request->sampling.repetition_detection->min_pattern_size, 1);
  EXPECT_EQ(request->sampling.repetition_detection->min_count, 3);
  expect_refused(R"("repetition_detection": 5)", "repetition_detection");
  expect_refused(R"("repetition_detection": {"max_pattern_size": "4"})", "repetition_detection.max_pattern_size");
  expect_refused(R"("repetition_detection": {"max_pattern_size": 4, "min_count": 1})",
                 "repetition_detection.min_count");
}

TEST(Sampling, FieldsReachTheParameters) {
  const auto request = completion(
      R"("n": 3, "min_p": 0.1, "presence_penalty": 0.5, "frequency_penalty": -0.5, "repetition_penalty": 1.2,
         "min_tokens": 4, "stop_token_ids": [7], "bad_words": ["a", "b c"], "allowed_token_ids": [1, 2], "seed": 5,
         "truncate_prompt_tokens": -1, "truncation_side": "right", "spaces_between_special_tokens": false,
         "logprobs": 1, "logprob_token_ids": [3])");
  ASSERT_TRUE(request.ok()) << request.error().message;
  const SamplingParams& sampling = request->sampling;
  EXPECT_EQ(sampling.n, 3);
  EXPECT_EQ(sampling.min_p, 0.1);
  EXPECT_EQ(sampling.presence_penalty, 0.5);
  EXPECT_EQ(sampling.frequency_penalty, -0.5);
  EXPECT_EQ(sampling.repetition_penalty, 1.2);
  EXPECT_EQ(sampling.min_tokens, 4);
  EXPECT_EQ(sampling.stop_token_ids, std::vector<int32_t>{7});
  EXPECT_EQ(sampling.bad_words, (std::vector<std::string>{"a", "b c"}));
  EXPECT_EQ(sampling.allowed_token_ids, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(sampling.truncate_prompt_tokens, -1);
  EXPECT_EQ(sampling.truncation_side, SamplingParams::TruncationSide::kRight);
  EXPECT_FALSE(sampling.spaces_between_special_tokens);
  EXPECT_EQ(sampling.logprob_token_ids, std::vector<int32_t>{3});
}

TEST(Sampling, Echo) {
  const auto only = completion(R"("echo": true, "max_tokens": 0, "logprobs": 2)");
  ASSERT_TRUE(only.ok()) << only.error().message;
  EXPECT_TRUE(only->prompt_only && only->echo && !only->prompt_logprobs);
  EXPECT_EQ(only->sampling.max_tokens, 1);
  EXPECT_EQ(only->sampling.prompt_logprobs, 2);
  EXPECT_TRUE(completion(R"("echo": true, "logprobs": 2, "stream": true)").ok());
  EXPECT_EQ(completion(R"("prompt_logprobs": 2, "stream": true)").error().param, "prompt_logprobs");
  EXPECT_TRUE(chat(R"("echo": true)")->echo);
}

TEST(Sampling, SAMP_07_ExtremeButFiniteValues) {
  expect_refused(R"("temperature": 999999)", "temperature");
  expect_refused(R"("top_p": -1)", "top_p");
  expect_refused(R"("repetition_penalty": 0)", "repetition_penalty");
  expect_refused(R"("min_p": 2)", "min_p");
  expect_refused(R"("frequency_penalty": 100)", "frequency_penalty");
}

TEST(Sampling, SAMP_21_IdsBeyondTheVocabulary) {
  for (const char* prompt : {"[1, 999999]", "[1000]", "[-1]", "[[1], [18446744073709551615]]", "[true]", "[1.0]"}) {
    const auto request = prompt_of(prompt);
    ASSERT_FALSE(request.ok()) << prompt;
    EXPECT_EQ(request.error().param, "prompt");
  }
}

TEST(Server, SRVR_02_WrongTypes) {
  expect_refused(R"("stop": 5)", "stop");
  expect_refused(R"("stream": "yes")", "stream");
  expect_refused(R"("max_tokens": "ten")", "max_tokens");
  expect_refused(R"("max_tokens": true)", "max_tokens");
  expect_refused(R"("max_tokens": 1.5)", "max_tokens");
  expect_refused(R"("temperature": "0.7")", "temperature");
  expect_refused(R"("temperature": true)", "temperature");
  expect_refused(R"("seed": 9223372036854775808)", "seed");
  EXPECT_EQ(prompt_of("5").error().param, "prompt");
  const auto messages = parse_chat_request(*parse_json_object(R"({"messages": {}})"), rules());
  EXPECT_EQ(messages.error().param, "messages");
}

TEST(Server, SRVR_05_MaxTokens) {
  expect_refused(R"("max_tokens": 0)", "max_tokens");
  expect_refused(R"("max_tokens": -1)", "max_tokens");
  EXPECT_EQ(completion("")->sampling.max_tokens, 16);
  EXPECT_EQ(completion(R"("max_tokens": null)")->sampling.max_tokens, 16);
  EXPECT_EQ(chat("")->sampling.max_tokens, std::nullopt);
  EXPECT_EQ(chat(R"("max_tokens": 5)")->sampling.max_tokens, 5);
  EXPECT_EQ(chat(R"("max_tokens": 5, "max_completion_tokens": 7)")->sampling.max_tokens, 7);
  EXPECT_EQ(chat(R"("max_completion_tokens": 0)").error().param, "max_completion_tokens");
}

TEST(PrefixCaching, PFX_02_SaltsThatAreNone) {
  expect_refused(R"("cache_salt": "")", "cache_salt");
  expect_refused(R"("cache_salt": 5)", "cache_salt");
  EXPECT_EQ(completion(R"("cache_salt": "a")")->cache_salt, "a");
}

TEST(Streaming, STRM_12_PromptForms) {
  EXPECT_EQ(prompt_of(R"("abc")")->prompts.size(), 1u);
  EXPECT_EQ(prompt_of(R"(["a", "b", "c"])")->prompts.size(), 3u);
  EXPECT_EQ(prompt_of("[1, 2, 3]")->prompts.size(), 1u);
  EXPECT_EQ(prompt_of("[[1, 2], [3]]")->prompts.size(), 2u);
  for (const char* bad : {"[]", "[[]]", R"(["a", [1]])", R"([1, "a"])", "{}", "null"}) {
    EXPECT_EQ(prompt_of(bad).error().param, "prompt") << bad;
  }
}

TEST(Requests, UnbuiltFieldsAreRefusedByName) {
  expect_refused(R"("response_format": {"type": "json_object"})", "response_format");
  expect_refused(R"("best_of": 3)", "best_of");
  expect_refused(R"("structured_outputs": {"regex": "a"})", "structured_outputs");
  EXPECT_EQ(chat(R"("tools": [{"type": "function"}])").error().param, "tools");
  EXPECT_EQ(chat(R"("chat_template": "x")").error().param, "chat_template");
}

TEST(Requests, NeutralValuesAndUnknownFieldsPass) {
  EXPECT_TRUE(
      completion(R"("n": 1, "best_of": 1, "presence_penalty": 0, "logit_bias": {}, "suffix": "", "echo": false)").ok());
  EXPECT_TRUE(chat(R"("tools": [], "tool_choice": "none", "response_format": {"type": "text"}, "user": "me")").ok());
  EXPECT_TRUE(chat(R"("something_new": {"a": [1]})").ok());
  EXPECT_TRUE(completion(R"("seed": -1)").ok());
  EXPECT_EQ(completion(R"("seed": -1)")->sampling.seed, std::nullopt);
  EXPECT_EQ(completion(R"("seed": 7, "seed": 8)")->sampling.seed, 8);
}

TEST(Requests, StreamOptionsNeedAStream) {
  expect_refused(R"("stream_options": {"include_usage": true})", "stream_options");
  expect_refused(R"("stream": true, "stream_options": 1)", "stream_options");
  expect_refused(R"("stream": true, "stream_options": {"include_usage": 1})", "stream_options.include_usage");
  const auto request =
      completion(R"("stream": true, "stream_options": {"include_usage": true, "continuous_usage_stats": true})");
  EXPECT_TRUE(request->include_usage && request->continuous_usage_stats);
  EXPECT_FALSE(
      completion(R"("stream": true, "stream_options": {"continuous_usage_stats": true})")->continuous_usage_stats);
}

TEST(Requests, Logprobs) {
  EXPECT_EQ(completion(R"("logprobs": 5)")->sampling.logprobs, 5);
  EXPECT_EQ(completion(R"("logprobs": 21)").error().param, "logprobs");
  EXPECT_EQ(completion(R"("logprobs": -1)").error().param, "logprobs");
  EXPECT_EQ(chat(R"("logprobs": true, "top_logprobs": 3)")->sampling.logprobs, 3);
  EXPECT_EQ(chat(R"("logprobs": true)")->sampling.logprobs, 0);
  EXPECT_EQ(chat(R"("top_logprobs": 3)").error().param, "top_logprobs");
  EXPECT_EQ(chat(R"("logprobs": 3)").error().param, "logprobs");
  EXPECT_EQ(chat(R"("logprobs": true, "top_logprobs": 21)").error().param, "top_logprobs");
}

TEST(Chat, MessagesAreJudged) {
  const auto param = [](const char* messages) {
    return parse_chat_request(*parse_json_object(R"({"messages": )" + std::string(messages) + "}"), rules())
        .error()
        .param;
  };
  EXPECT_EQ(param("[]"), "messages");
  EXPECT_EQ(param("[5]"), "messages[0]");
  EXPECT_EQ(param(R"([{"content": "x"}])"), "messages[0].role");
  EXPECT_EQ(param(R"([{"role": "user"}])"), "messages[0].content");
  EXPECT_EQ(param(R"([{"role": "user", "content": 5}])"), "messages[0].content");
  EXPECT_EQ(param(R"([{"role": "user", "content": [{"type": "image_url"}]}])"), "messages[0].content[0]");
}

TEST(Chat, CHAT_12_ContinuingExcludesAGenerationPrompt) {
  EXPECT_FALSE(chat(R"("continue_final_message": true)")->prompt.add_generation_prompt);
  EXPECT_EQ(chat(R"("continue_final_message": true, "add_generation_prompt": true)").error().param,
            "continue_final_message");
}

TEST(Json, ShapesAreBounded) {
  EXPECT_FALSE(parse_json_object(std::string(100000, '[')).ok());
  EXPECT_FALSE(parse_json_object(R"({"a":)" + std::string(100000, '[') + std::string(100000, ']') + "}").ok());
  std::string many = "{\"k\": 0";
  for (int i = 0; i < 600; ++i) many += ",\"k" + std::to_string(i) + "\": 0";
  EXPECT_FALSE(parse_json_object(many + "}").ok());
  EXPECT_TRUE(parse_json_object(R"({"a": ":::::{{{{[[[[\"{"})").ok());
  EXPECT_FALSE(parse_json_object("[]").ok());
  EXPECT_FALSE(parse_json_object("").ok());
  EXPECT_FALSE(parse_json_object("{} x").ok());
}

TEST(Json, InvalidUtf8IsRefusedAndNeverSent) {
  EXPECT_FALSE(parse_json_object("{\"prompt\": \"\xff\xfe\"}").ok());
  EXPECT_FALSE(parse_json_object(R"({"prompt": "\ud800"})").ok());
  EXPECT_EQ(to_wire(nlohmann::ordered_json{{"a", "x\xffy"}}), "{\"a\":\"x\xef\xbf\xbdy\"}");
  EXPECT_EQ(excerpt(nlohmann::ordered_json("\xc3\xa4\xc3\xa4"), 2), "\"...");
}

TEST(Tokenize, Forms) {
  EXPECT_TRUE(parse_tokenize_request(*parse_json_object(R"({"prompt": "x"})"))->add_special_tokens);
  EXPECT_TRUE(parse_tokenize_request(*parse_json_object(R"({"messages": [{"role": "user", "content": "x"}]})")).ok());
  EXPECT_FALSE(parse_tokenize_request(*parse_json_object("{}")).ok());
  EXPECT_EQ(parse_detokenize_request(*parse_json_object(R"({"tokens": [1, 2]})"), 1000)->tokens.size(), 2u);
  EXPECT_EQ(parse_detokenize_request(*parse_json_object(R"({"tokens": [1000]})"), 1000).error().param, "tokens");
}

}  // namespace
}  // namespace quire

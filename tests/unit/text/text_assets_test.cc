// Text assets of the demo model (GGUF) and of Hugging Face folders.
#include "text/text_assets.h"

#include "text/chat_prompt.h"
#include "text/gguf_tokenizer_json.h"
#include "text/sentencepiece_merges.h"
#include "text_test_util.h"

namespace quire {
namespace {

using text_test::Json;

class DemoModel : public testing::Test {
 protected:
  void SetUp() override {
    const std::string path = text_test::demo_model();
    if (path.empty()) GTEST_SKIP() << "QUIRE_DEMO_MODEL does not name the demo model";
    auto assets = load_text_assets(path);
    ASSERT_TRUE(assets.ok()) << assets.error().message;
    assets_ = std::move(assets).value();
    golden_ = text_test::read_json(text_test::golden("smollm2-135m-instruct-q4_1.json"));
  }

  TextAssets assets_;
  Json golden_;
};

TEST_F(DemoModel, PromptsHaveTheReferencesIds) {
  for (const Json& prompt : golden_["prompts"]) {
    const auto text = prompt["text"].get<std::string>();
    const auto ids = assets_.tokenizer->encode(text, true);
    ASSERT_TRUE(ids.ok());
    EXPECT_EQ(*ids, prompt["token_ids"].get<std::vector<int32_t>>()) << text;
    EXPECT_EQ(assets_.tokenizer->decode(*ids, false).value(), text);
    const auto greedy = prompt["greedy_token_ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(assets_.tokenizer->decode(greedy, true).value(), prompt["greedy_text"].get<std::string>());
  }
}

TEST_F(DemoModel, ChatsHaveTheReferencesTextAndIds) {
  ASSERT_NE(assets_.chat_template, nullptr) << assets_.chat_template_problem;
  for (const Json& chat : golden_["chats"]) {
    const Json context = {{"messages", chat["messages"]},
                          {"add_generation_prompt", true},
                          {"bos_token", assets_.bos_token},
                          {"eos_token", assets_.eos_token}};
    const auto prompt = encode_chat(*assets_.tokenizer, *assets_.chat_template, context);
    ASSERT_TRUE(prompt.ok()) << prompt.error().message;
    EXPECT_EQ(prompt->text, chat["rendered"].get<std::string>());
    EXPECT_EQ(prompt->token_ids, chat["token_ids"].get<std::vector<int32_t>>());
  }
}

TEST_F(DemoModel, LongTextIsEncodedInWellUnderASecond) {
  std::string text;
  while (text.size() < 100'000) text += "The quick brown fox, 1234 times!\n\t if (x >= 10) { return \"caf\u00e9\"; }  ";
  const auto begin = std::chrono::steady_clock::now();
  const auto ids = assets_.tokenizer->encode(text, false);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(assets_.tokenizer->decode(*ids, false).value(), text);
  RecordProperty("seconds", std::to_string(elapsed.count()));
}

TEST(TextAssets, GoldenFoldersLoadAndRoundTrip) {
  for (const auto& entry : std::filesystem::directory_iterator(text_test::golden("models"))) {
    if (!std::filesystem::exists(entry.path() / "tokenizer.json")) continue;
    const auto assets = load_text_assets(entry.path());
    ASSERT_TRUE(assets.ok()) << assets.error().message;
    EXPECT_EQ(assets->bos_token, "<s>");
    EXPECT_EQ(assets->eos_token_id, 2);
    ASSERT_NE(assets->chat_template, nullptr);
    for (const std::string text : {"Hello, world!", " a  b\n\tc ", "\u4e2d\u6587 \U0001F999", ""}) {
      const auto ids = assets->tokenizer->encode(text, false);
      ASSERT_TRUE(ids.ok());
      EXPECT_EQ(assets->tokenizer->decode(*ids, false).value(), text) << entry.path();
    }
  }
}

std::string small_tokenizer_json() { return text_test::read_file(text_test::golden("models/llama/tokenizer.json")); }

TEST(TextAssets, CHAT_01_NoTemplateLeavesTheModelUsable) {
  text_test::TemporaryFolder folder;
  folder.write("tokenizer.json", small_tokenizer_json());
  const auto assets = load_text_assets(folder.path());
  ASSERT_TRUE(assets.ok()) << assets.error().message;
  EXPECT_EQ(assets->chat_template, nullptr);
  EXPECT_NE(assets->chat_template_problem.find("--chat-template"), std::string::npos);
}

TEST(TextAssets, CHAT_01_BrokenTemplateLeavesTheModelUsable) {
  text_test::TemporaryFolder folder;
  folder.write("tokenizer.json", small_tokenizer_json());
  folder.write("chat_template.jinja", "{% if %}");
  const auto assets = load_text_assets(folder.path());
  ASSERT_TRUE(assets.ok()) << assets.error().message;
  EXPECT_EQ(assets->chat_template, nullptr);
  EXPECT_NE(assets->chat_template_problem.find("line 1"), std::string::npos) << assets->chat_template_problem;
  EXPECT_FALSE(load_text_assets(folder.path(), "{% if %}").ok());
  EXPECT_NE(load_text_assets(folder.path(), "{{ 1 }}")->chat_template, nullptr);
  EXPECT_EQ(load_text_assets(folder.path(), "no-such-file").error().kind, ErrorKind::kNotFound);
}

TEST(TextAssets, CHAT_02_TemplateFilesAndNamedTemplates) {
  text_test::TemporaryFolder folder;
  folder.write("tokenizer.json", small_tokenizer_json());
  folder.write("tokenizer_config.json",
               R"({"chat_template": [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]})");
  EXPECT_EQ(load_text_assets(folder.path())->chat_template_source, "D");
  folder.write("chat_template.json", R"({"chat_template": "J"})");
  EXPECT_EQ(load_text_assets(folder.path())->chat_template_source, "J");
  folder.write("chat_template.jinja", "F");
  EXPECT_EQ(load_text_assets(folder.path())->chat_template_source, "F");
}

TEST(TextAssets, TokensNamedByTheConfigAreSpecial) {
  text_test::TemporaryFolder folder;
  folder.write("tokenizer.json", small_tokenizer_json());
  folder.write("tokenizer_config.json", R"({"eos_token": {"content": "<|end|>", "lstrip": false}})");
  const auto assets = load_text_assets(folder.path());
  ASSERT_TRUE(assets.ok()) << assets.error().message;
  ASSERT_TRUE(assets->eos_token_id.has_value());
  EXPECT_TRUE(assets->tokenizer->is_special(*assets->eos_token_id));
  EXPECT_EQ(assets->tokenizer->encode("<|end|>", false).value(), std::vector<int32_t>{*assets->eos_token_id});
}

/// The ids of `text` with the small tokenizer and this tokenizer_config.json, or the sentence that refuses it.
std::string ids_with(const std::string& config, const std::string& text) {
  text_test::TemporaryFolder folder;
  folder.write("tokenizer.json", small_tokenizer_json());
  folder.write("tokenizer_config.json", config);
  const auto assets = load_text_assets(folder.path());
  if (!assets.ok()) return assets.error().message;
  return Json(assets->tokenizer->encode(text, false).value()).dump();
}

// The ids are those of transformers 5.5 for the same files.
TEST(TextAssets, TokensOfTheConfigAloneAreAdded) {
  const std::string text = "hello a<extra> b </s> x .";
  EXPECT_EQ(ids_with("{}", text), "[267,80,293,261,32,73,92,88,86,69,34,285,225,2,225,92,225,18]");
  const std::string with_extra = "[267,80,293,261,461,285,225,2,225,92,225,18]";
  for (const std::string config :
       {R"({"added_tokens_decoder":{"512":{"content":"<extra>","special":true}}})",
        R"({"added_tokens_decoder":{"9":{"content":"<extra>","normalized":false}}})",
        R"({"additional_special_tokens":["<extra>"]})", R"({"extra_special_tokens":{"image_token":"<extra>"}})",
        R"({"cls_token":"<extra>"})"}) {
    EXPECT_EQ(ids_with(config, text), with_extra) << config;
  }
  EXPECT_EQ(ids_with(R"({"additional_special_tokens":["a"]})", text),
            "[267,80,293,225,69,32,73,92,88,86,69,34,285,225,2,225,92,225,18]");
  EXPECT_EQ(ids_with(R"({"added_tokens_decoder":{"2":{"content":"</s>","rstrip":true,"special":true}}})", text),
            "[267,80,293,261,32,73,92,88,86,69,34,285,225,2,92,225,18]")
      << "its flags go before those of tokenizer.json";
}

TEST(TextAssets, OnlyNamedTokensBecomeSpecial) {
  Json tokenizer = Json::parse(small_tokenizer_json());
  for (Json& token : tokenizer["added_tokens"]) {
    if (token["content"] == "</s>") token["special"] = false;
  }
  for (const bool named : {true, false}) {
    text_test::TemporaryFolder folder;
    folder.write("tokenizer.json", tokenizer.dump());
    folder.write("tokenizer_config.json",
                 named ? R"({"eos_token":"</s>"})" : R"({"additional_special_tokens":["</s>"]})");
    const auto assets = load_text_assets(folder.path());
    ASSERT_TRUE(assets.ok()) << assets.error().message;
    EXPECT_EQ(assets->tokenizer->decode({{267, 2, 80}}, true).value(), named ? "hel" : "he</s>l");
  }
}

TEST(TextAssets, FieldsOfTheConfigThatCannotBeAreRefusedByName) {
  const std::pair<const char*, const char*> kCases[] = {
      {R"({"bos_token":5})", "tokenizer_config.json: bos_token must be"},
      {R"({"bos_token":{"content":5}})", "bos_token"},
      {R"({"added_tokens_decoder":[]})", "added_tokens_decoder"},
      {R"({"added_tokens_decoder":{"x":{"content":"a"}}})", "added_tokens_decoder"},
      {R"({"added_tokens_decoder":{"1":"a"}})", "added_tokens_decoder"},
      {R"({"additional_special_tokens":"a"})", "additional_special_tokens"},
      {R"({"extra_special_tokens":[5]})", "extra_special_tokens"},
      {R"({"split_special_tokens":true})", "split_special_tokens"},
      {"[]", "not a JSON object"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "LFS pointer"}};
  for (const auto& [config, word] : kCases) {
    EXPECT_NE(ids_with(config, "a").find(word), std::string::npos) << config << ": " << ids_with(config, "a");
  }
  for (const char* config : {R"({"bos_token":null,"additional_special_tokens":null,"extra_special_tokens":{}})",
                             R"({"added_tokens_decoder":{},"split_special_tokens":false,"add_bos_token":false})"}) {
    EXPECT_EQ(ids_with(config, "a"), ids_with("{}", "a"));
  }
}

TEST(TextAssets, WhatLiesInPlaceOfATokenizerIsNamed) {
  const std::pair<const char*, const char*> kCases[] = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "LFS pointer"},
      {"<!DOCTYPE html><html></html>", "web page"},
      {"", "empty"}};
  for (const auto& [content, word] : kCases) {
    text_test::TemporaryFolder folder;
    folder.write("tokenizer.json", content);
    const auto assets = load_text_assets(folder.path());
    ASSERT_FALSE(assets.ok());
    EXPECT_NE(assets.error().message.find(word), std::string::npos) << assets.error().message;
  }
  text_test::TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "tokenizer.json");
  EXPECT_NE(load_text_assets(folder.path()).error().message.find("not a regular file"), std::string::npos);
}

TEST(TextAssets, UnknownPreTokenizerIsRefusedByName) {
  GgufVocabulary vocabulary;
  vocabulary.model = "gpt2";
  vocabulary.pre_tokenizer = "klingon";
  vocabulary.tokens = {"a", "b", "ab"};
  vocabulary.types.assign(3, GgufTokenType::kNormal);
  vocabulary.merges = {"a b"};
  const auto refused = make_tokenizer_json(vocabulary, "x.gguf");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnsupported);
  EXPECT_NE(refused.error().message.find("klingon"), std::string::npos);
  vocabulary.model = "rwkv";
  EXPECT_NE(make_tokenizer_json(vocabulary, "x.gguf").error().message.find("rwkv"), std::string::npos);
}

TEST(TextAssets, MergesFromScoresAreInTheConvertersOrder) {
  // What transformers' generate_merges answers for this vocabulary.
  const std::vector<std::string> tokens = {"a", "b", "c", "ab", "bc", "abc", "\u00e9", "\u00e9a"};
  using Merge = std::pair<std::string, std::string>;
  const std::vector<Merge> expected = {{"ab", "c"}, {"a", "bc"}, {"a", "b"}, {"\u00e9", "a"}, {"b", "c"}};
  EXPECT_EQ(merges_from_scores(tokens, {-1, -2, -3, -4, -5, -4, -6, -4}), expected);
}

TEST(TextAssets, EveryPreTokenizerKindMakesALoadableTokenizer) {
  GgufVocabulary vocabulary;
  vocabulary.model = "gpt2";
  vocabulary.tokens = {"a", "b", "ab", "<s>"};
  vocabulary.types = {GgufTokenType::kNormal, GgufTokenType::kNormal, GgufTokenType::kNormal, GgufTokenType::kControl};
  vocabulary.merges = {"a b"};
  vocabulary.bos_id = 3;
  for (const char* name : {"", "default", "gpt-2", "olmo", "smollm", "command-r", "llama-bpe", "dbrx", "glm4", "qwen2",
                           "qwen35", "tekken", "gpt-4o", "deepseek-v3"}) {
    vocabulary.pre_tokenizer = name;
    const auto json = make_tokenizer_json(vocabulary, "x.gguf");
    ASSERT_TRUE(json.ok()) << json.error().message;
    const auto tokenizer = text_test::make_tokenizer(*json);
    EXPECT_EQ(tokenizer->encode("<s>ab", false).value(), (std::vector<int32_t>{3, 2})) << name;
    const bool adds_bos = vocabulary.pre_tokenizer == "llama-bpe" || vocabulary.pre_tokenizer == "tekken";
    EXPECT_EQ(tokenizer->encode("ab", true)->size(), adds_bos ? 2u : 1u) << name;
  }
}

}  // namespace
}  // namespace quire

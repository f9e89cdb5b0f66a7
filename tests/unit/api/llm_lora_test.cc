// Adapters through the public C++ API, on a small real model.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "quire/llm.h"

namespace quire {
namespace {

const std::string kModel = std::string(QUIRE_TESTS_DIR) + "/golden/models/llama";

LLMOptions options() {
  LLMOptions options;
  options.model = kModel;
  options.dtype = "float32";
  options.enable_lora = true;
  options.kv_cache_memory_bytes = 64 << 20;
  options.threads = 2;
  return options;
}

SamplingParams greedy() {
  SamplingParams params;
  params.temperature = 0;
  params.max_tokens = 12;
  params.ignore_eos = true;
  return params;
}

LLM::Prompt prompt_for(const std::string& adapter) {
  LLM::Prompt prompt(std::vector<int32_t>{5, 9, 44, 17, 300, 21});
  if (!adapter.empty()) prompt.lora = LoraRequest{adapter, kModel + "/" + adapter};
  return prompt;
}

TEST(LlmLora, PromptsOfOneCallMayHaveDifferentAdapters) {
  Expected<LLM> llm = LLM::create(options());
  ASSERT_TRUE(llm) << llm.error().message;
  const std::vector<std::string> names = {"", "qv-r4", "dora-r4", "qv-r4", "trained-head"};
  std::vector<std::vector<int32_t>> alone;
  std::vector<LLM::Prompt> prompts;
  for (const std::string& name : names) {
    prompts.push_back(prompt_for(name));
    const auto outputs = llm->generate({prompts.back()}, greedy());
    ASSERT_TRUE(outputs) << outputs.error().message;
    alone.push_back((*outputs)[0].outputs[0].token_ids);
  }
  const auto together = llm->generate(prompts, greedy());
  ASSERT_TRUE(together) << together.error().message;
  for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ((*together)[i].outputs[0].token_ids, alone[i]) << names[i];
  EXPECT_EQ(alone[1], alone[3]);
  EXPECT_EQ(llm->list_loras(), (std::vector<std::string>{"dora-r4", "qv-r4", "trained-head"}));
}

TEST(LlmLora, ConversationsTakeOneAdapterOrOneEach) {
  Expected<LLM> llm = LLM::create(options());
  ASSERT_TRUE(llm) << llm.error().message;
  const std::vector<LLM::Conversation> conversations(2, {{"user", "hello"}});
  LLM::ChatOptions chat;
  chat.lora = {LoraRequest{"a", kModel + "/embed-and-head"}};
  const auto same = llm->chat(conversations, greedy(), {}, chat);
  ASSERT_TRUE(same) << same.error().message;
  EXPECT_EQ((*same)[0].outputs[0].token_ids, (*same)[1].outputs[0].token_ids);
  chat.lora.push_back(std::nullopt);
  const auto each = llm->chat(conversations, greedy(), {}, chat);
  ASSERT_TRUE(each) << each.error().message;
  EXPECT_EQ((*each)[0].outputs[0].token_ids, (*same)[0].outputs[0].token_ids);
  chat.lora.resize(3);
  EXPECT_EQ(llm->chat(conversations, greedy(), {}, chat).error().param, "lora");
}

TEST(LlmLora, ReplacedAndRemoved) {
  Expected<LLM> llm = LLM::create(options());
  ASSERT_TRUE(llm) << llm.error().message;
  const auto tokens = [&](const std::string& path) {
    LLM::Prompt prompt = prompt_for("");
    prompt.lora = LoraRequest{"a", path};
    const auto outputs = llm->generate({prompt}, greedy());
    return outputs ? (*outputs)[0].outputs[0].token_ids : std::vector<int32_t>();
  };
  const std::string first = kModel + "/all-r8";
  const std::string second = kModel + "/embed-and-head";
  const auto of_first = tokens(first);
  EXPECT_TRUE(tokens(second).empty()) << "the name stands for the first path";
  EXPECT_FALSE(llm->add_lora({"a", second}));
  ASSERT_TRUE(llm->add_lora({"a", second}, true));
  const auto of_second = tokens(second);
  EXPECT_FALSE(of_second.empty());
  EXPECT_TRUE(llm->remove_lora("a"));
  EXPECT_FALSE(llm->remove_lora("a"));
  EXPECT_EQ(tokens(first), of_first);
}

/// Real adapters are packed, replaced and freed by the loader's thread while the engine's steps run.
TEST(LlmLora, LoadsReloadsAndUnloadsUnderTraffic) {
  Expected<LLM> llm = LLM::create(options());
  ASSERT_TRUE(llm) << llm.error().message;
  const std::vector<std::string> kept = {"", "qv-r4", "dora-r4"};
  std::vector<LLM::Prompt> prompts;
  for (const std::string& name : kept) prompts.push_back(prompt_for(name));
  const auto alone = llm->generate(prompts, greedy());
  ASSERT_TRUE(alone) << alone.error().message;
  std::atomic<bool> done{false};
  std::thread changer([&] {
    const std::vector<std::string> others = {"trained-norms", "embed-and-head", "tokens", "rank-pattern"};
    for (size_t i = 0; !done; ++i) {
      EXPECT_TRUE(llm->add_lora({"other", kModel + "/" + others[i % others.size()]}, true));
      EXPECT_TRUE(llm->add_lora({"qv-r4", kModel + "/qv-r4"}, true)) << "the same weights in a new place";
      if (i % 3 != 0) continue;
      EXPECT_TRUE(llm->remove_lora("other"));
    }
  });
  for (int round = 0; round < 20; ++round) {
    const auto outputs = llm->generate(prompts, greedy());
    EXPECT_TRUE(outputs) << outputs.error().message;
    for (size_t i = 0; outputs && i < kept.size(); ++i) {
      EXPECT_EQ((*outputs)[i].outputs[0].token_ids, (*alone)[i].outputs[0].token_ids) << kept[i];
    }
  }
  done = true;
  changer.join();
}

TEST(LlmLora, ErrorsAreValues) {
  LLMOptions without = options();
  without.enable_lora = false;
  Expected<LLM> plain = LLM::create(without);
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(plain->generate({prompt_for("qv-r4")}, greedy()).error().param, "lora");
  without.max_loras = 2;
  EXPECT_EQ(LLM::create(without).error().param, "max_loras");
  LLMOptions limited = options();
  limited.max_lora_rank = 8;
  Expected<LLM> llm = LLM::create(limited);
  ASSERT_TRUE(llm) << llm.error().message;
  const LLMError high = llm->generate({prompt_for("rslora-r16")}, greedy()).error();
  EXPECT_NE(high.message.find("16"), std::string::npos) << high.message;
  EXPECT_EQ(llm->generate({prompt_for("nowhere")}, greedy()).error().code, LLMError::Code::kNotFound);
  EXPECT_TRUE(llm->generate({prompt_for("")}, greedy()));
}

}  // namespace
}  // namespace quire

// Sampling parameters through the public C++ API, on a small real model.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "quire/llm.h"

namespace quire {
namespace {

class LlmSampling : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    LLMOptions options;
    options.model = std::string(QUIRE_TESTS_DIR) + "/golden/models/llama";
    options.dtype = "float32";
    options.kv_cache_memory_bytes = 64 << 20;
    options.threads = 2;
    Expected<LLM> created = LLM::create(options);
    ASSERT_TRUE(created) << created.error().message;
    llm = std::make_unique<LLM>(std::move(*created));
  }
  static void TearDownTestSuite() { llm.reset(); }

  static std::vector<LLM::RequestOutput> generate(const std::vector<LLM::Prompt>& prompts, const SamplingParams& params,
                                                  const LLM::StreamCallback& stream = {}) {
    auto outputs = llm->generate(prompts, params, stream);
    EXPECT_TRUE(outputs) << outputs.error().message;
    return outputs ? std::move(*outputs) : std::vector<LLM::RequestOutput>(prompts.size());
  }
  static std::string refused(const SamplingParams& params) {
    const auto outputs = llm->generate({kPrompt}, params);
    return outputs ? "" : outputs.error().param;
  }

  static inline std::unique_ptr<LLM> llm;
  static inline const LLM::Prompt kPrompt{std::vector<int32_t>{5, 9, 44, 17, 300, 21}};
};

/// A copy of the small model whose generation_config.json is another.
class LlmDefaults : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "quire-llm-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    for (const auto& file : std::filesystem::directory_iterator(QUIRE_TESTS_DIR "/golden/models/llama")) {
      if (file.is_regular_file()) std::filesystem::copy_file(file, folder_ / file.path().filename());
    }
    std::ofstream(folder_ / "generation_config.json") << R"({"temperature":0.25,"top_k":7,"eos_token_id":[2,9]})";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  Expected<LLM> create(const std::string& generation_config) const {
    LLMOptions options;
    options.model = folder_.string();
    options.generation_config = generation_config;
    options.kv_cache_memory_bytes = 64 << 20;
    options.threads = 1;
    return LLM::create(options);
  }
  std::filesystem::path folder_;
};

TEST_F(LlmDefaults, ComeFromTheModelUnlessLeftOut) {
  const Expected<LLM> own = create("auto");
  ASSERT_TRUE(own) << own.error().message;
  EXPECT_EQ(own->get_default_sampling_params().temperature, 0.25);
  EXPECT_EQ(own->get_default_sampling_params().top_k, 7);
  const Expected<LLM> usual = create("vllm");
  ASSERT_TRUE(usual) << usual.error().message;
  EXPECT_EQ(usual->get_default_sampling_params().temperature, SamplingParams().temperature);
  EXPECT_EQ(usual->get_default_sampling_params().top_k, SamplingParams().top_k);
  const Expected<LLM> refused = create("mine");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().param, "generation_config");
}

SamplingParams sampled(int64_t n) {
  SamplingParams params;
  params.n = n;
  params.seed = 4;
  params.max_tokens = 10;
  params.ignore_eos = true;
  return params;
}

TEST_F(LlmSampling, SAMP_02_ChoicesStreamAsTheyEnd) {
  SamplingParams params = sampled(5);
  params.prompt_logprobs = 1;
  params.logprobs = 2;
  std::vector<std::vector<std::string>> texts(2, std::vector<std::string>(5));
  std::vector<int> finished(2);
  const auto outputs = generate({kPrompt, LLM::Prompt("a b c")}, params, [&](size_t prompt, const auto& delta) {
    ASSERT_EQ(delta.outputs.size(), 1u);
    texts[prompt][static_cast<size_t>(delta.outputs[0].index)] += delta.outputs[0].text;
    finished[prompt] += delta.finished ? 1 : 0;
  });
  EXPECT_EQ(finished, (std::vector<int>{1, 1}));
  for (size_t prompt = 0; prompt < 2; ++prompt) {
    const LLM::RequestOutput& output = outputs[prompt];
    ASSERT_EQ(output.outputs.size(), 5u);
    EXPECT_TRUE(output.finished);
    EXPECT_EQ(output.metrics.completion_tokens, 50);
    EXPECT_EQ(output.prompt_logprobs.size(), output.prompt_token_ids.size());
    std::set<std::vector<int32_t>> distinct;
    for (size_t choice = 0; choice < 5; ++choice) {
      EXPECT_EQ(output.outputs[choice].index, static_cast<int32_t>(choice));
      EXPECT_EQ(output.outputs[choice].text, texts[prompt][choice]);
      EXPECT_EQ(output.outputs[choice].logprobs.size(), 10u);
      distinct.insert(output.outputs[choice].token_ids);
    }
    EXPECT_EQ(distinct.size(), 5u);
  }
  EXPECT_EQ(generate({kPrompt}, sampled(1))[0].outputs[0].token_ids, outputs[0].outputs[0].token_ids);
}

TEST_F(LlmSampling, ParametersReachTheSampler) {
  SamplingParams params = sampled(1);
  params.logit_bias = {{77, 100.0}};
  EXPECT_EQ(generate({kPrompt}, params)[0].outputs[0].token_ids, std::vector<int32_t>(10, 77));
  params.repetition_detection = RepetitionDetection{1, 1, 3};
  const LLM::CompletionOutput circles = generate({kPrompt}, params)[0].outputs[0];
  EXPECT_EQ(circles.token_ids.size(), 3u);
  EXPECT_EQ(circles.finish_reason, "repetition");
  EXPECT_EQ(std::get<std::string>(circles.stop_reason), "repetition_detected");
  params = sampled(1);
  params.allowed_token_ids = {8, 9};
  params.bad_words = {"unseen"};
  const std::vector<int32_t> allowed = generate({kPrompt}, params)[0].outputs[0].token_ids;
  for (const int32_t token : allowed) EXPECT_TRUE(token == 8 || token == 9);
  params = sampled(1);
  params.truncate_prompt_tokens = 2;
  EXPECT_EQ(generate({kPrompt}, params)[0].prompt_token_ids, (std::vector<int32_t>{300, 21}));
}

TEST_F(LlmSampling, BeamSearchFindsWhatIsMoreLikely) {
  SamplingParams params = sampled(4);
  params.use_beam_search = true;
  params.logprobs = 0;
  const auto likelihood = [](const LLM::CompletionOutput& output) {
    double sum = 0;
    for (size_t i = 0; i < output.token_ids.size(); ++i) sum += output.logprobs[i].at(output.token_ids[i]).logprob;
    return sum;
  };
  const std::vector<LLM::CompletionOutput> beams = generate({kPrompt}, params)[0].outputs;
  SamplingParams greedy = sampled(1);
  greedy.temperature = 0;
  greedy.logprobs = 0;
  EXPECT_GE(likelihood(beams[0]), likelihood(generate({kPrompt}, greedy)[0].outputs[0]));
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(beams[i].token_ids.size(), 10u);
    EXPECT_EQ(beams[i].finish_reason, "length");
    EXPECT_GE(likelihood(beams[i > 0 ? i - 1 : 0]), likelihood(beams[i]));
  }
  EXPECT_EQ(generate({kPrompt}, params)[0].outputs[2].token_ids, beams[2].token_ids);
}

TEST_F(LlmSampling, SearchesEndWhenTheyAreAborted) {
  SamplingParams params = sampled(8);
  params.use_beam_search = true;
  params.max_tokens = 400;
  bool first = true;
  std::vector<LLM::Prompt> prompts(3, kPrompt);
  // The other prompt's first token comes before the searches have ended.
  std::vector<SamplingParams> each = {params, sampled(1), params};
  const auto outputs = llm->generate(prompts, each, [&](size_t, const LLM::RequestOutput&) {
    if (!std::exchange(first, false)) return;
    for (int id = 0; id < 100; ++id) llm->abort(std::to_string(id));
  });
  ASSERT_TRUE(outputs);
  for (const LLM::RequestOutput& output : *outputs) EXPECT_TRUE(output.finished);
}

TEST_F(LlmSampling, SAMP_25_BadValuesCostTheCallOnly) {
  SamplingParams params = sampled(1);
  params.n = int64_t{1} << 40;
  EXPECT_EQ(refused(params), "n");
  params.n = -5;
  EXPECT_EQ(refused(params), "n");
  params = sampled(1);
  params.min_p = -1;
  EXPECT_EQ(refused(params), "min_p");
  params = sampled(300);
  params.use_beam_search = true;
  EXPECT_EQ(refused(params), "n");
  EXPECT_EQ(refused(sampled(1)), "");
}

}  // namespace
}  // namespace quire

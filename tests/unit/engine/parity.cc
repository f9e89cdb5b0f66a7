#include "parity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "tensor/convert.h"

namespace quire::testing {

std::string golden_models() { return std::string(QUIRE_TESTS_DIR) + "/golden/models"; }

ParityModel::ParityModel(const std::string& path, EngineConfig config) : config_(std::move(config)) {
  config_.model = path;
  config_.offline = true;
  if (!config_.num_kv_blocks_override) config_.num_kv_blocks_override = 64;
  auto checkpoint = open_checkpoint(path);
  if (!checkpoint.ok()) throw std::runtime_error(checkpoint.error().message);
  auto loaded = create_single_process_executor(config_, std::move(*checkpoint), nullptr);
  if (!loaded.ok()) throw std::runtime_error(loaded.error().message);
  loaded_ = std::move(*loaded);
}

ParityModel::Answer ParityModel::run(const std::vector<int32_t>& prompt, int64_t steps, int64_t chunk) {
  std::vector<int32_t> blocks(64);
  std::iota(blocks.begin(), blocks.end(), 0);
  std::reverse(blocks.begin(), blocks.end());
  const std::vector<std::span<const int32_t>> tables(loaded_.executor->kv_cache_groups().size(), blocks);
  SamplingParams params;
  params.temperature = 0;
  params.logprobs = vocab_size();

  Answer answer;
  std::vector<int32_t> tokens = prompt;
  int64_t computed = 0;
  const auto prompt_length = static_cast<int64_t>(prompt.size());
  while (static_cast<int64_t>(answer.greedy.size()) < std::max<int64_t>(steps, 1)) {
    const int64_t count = std::min(chunk, static_cast<int64_t>(tokens.size()) - computed);
    ScheduledSequence sequence;
    sequence.tokens =
        std::span<const int32_t>(tokens).subspan(static_cast<size_t>(computed), static_cast<size_t>(count));
    sequence.start = computed;
    sequence.block_tables = tables;
    sequence.sample = computed + count == static_cast<int64_t>(tokens.size());
    sequence.sampling = {&params, 0, static_cast<int64_t>(tokens.size()), 0};
    const int64_t known = std::min(computed + count, prompt_length - 1) - computed;
    if (known > 0) {
      sequence.next_prompt_tokens =
          std::span<const int32_t>(tokens).subspan(static_cast<size_t>(computed) + 1, static_cast<size_t>(known));
    }
    StepPlan plan{{sequence}, count};
    StepResult result;
    const Status status = loaded_.executor->execute(plan, result);
    if (!status.ok()) throw std::runtime_error(status.error().message);
    for (SampledToken& scored : result.sequences[0].prompt_logprobs)
      answer.prompt.push_back(std::move(scored.logprobs));
    computed += count;
    if (!sequence.sample) continue;
    SampledToken& token = result.sequences[0].token;
    if (answer.greedy.empty()) {
      answer.last.resize(static_cast<size_t>(vocab_size()));
      for (const TokenLogprob& entry : token.logprobs) answer.last[static_cast<size_t>(entry.token)] = entry.logprob;
    }
    answer.greedy.push_back(token.token);
    answer.greedy_logprobs.push_back(std::move(token.logprobs));
    tokens.push_back(token.token);
  }
  return answer;
}

namespace {

/// Rewrites one safetensors file with its F32 tensors' values rounded to bfloat16 (kept as F32).
void round_file(const std::filesystem::path& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  uint64_t header_size = 0;
  file.read(reinterpret_cast<char*>(&header_size), sizeof(header_size));
  std::string header(header_size, ' ');
  file.read(header.data(), static_cast<std::streamsize>(header_size));
  const nlohmann::json entries = nlohmann::json::parse(header);
  for (const auto& [name, tensor] : entries.items()) {
    if (name == "__metadata__" || tensor["dtype"] != "F32") continue;
    const uint64_t begin = tensor["data_offsets"][0], end = tensor["data_offsets"][1];
    std::vector<float> values((end - begin) / sizeof(float));
    const auto at = static_cast<std::streamoff>(sizeof(header_size) + header_size + begin);
    file.seekg(at);
    file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(end - begin));
    for (float& value : values) value = round_to(value, DType::kBFloat16);
    file.seekp(at);
    file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(end - begin));
  }
}

/// Folders to remove when the test program ends.
struct TemporaryFolders {
  std::vector<std::filesystem::path> paths;
  ~TemporaryFolders() {
    std::error_code ignored;
    for (const auto& path : paths) std::filesystem::remove_all(path, ignored);
  }
};

}  // namespace

std::string rounded_copy(const std::string& folder) {
  static TemporaryFolders folders;
  std::string name = (std::filesystem::temp_directory_path() / "quire-rounded-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  folders.paths.emplace_back(name);
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const std::filesystem::path copy = std::filesystem::path(name) / entry.path().filename();
    std::ofstream(copy, std::ios::binary) << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    if (copy.extension() == ".safetensors") round_file(copy);
  }
  return name;
}

namespace {

std::vector<double> log_softmax(const std::vector<double>& logits) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (double logit : logits) sum += std::exp(logit - top);
  std::vector<double> out;
  for (double logit : logits) out.push_back(logit - top - std::log(sum));
  return out;
}

}  // namespace

void expect_parity(const std::string& folder, EngineConfig config, double tolerance, double margin) {
  std::ifstream file(folder + "/golden.json");
  ASSERT_TRUE(file) << folder;
  const nlohmann::json golden = nlohmann::json::parse(file);
  ParityModel model(folder, std::move(config));
  for (const auto& prompt : golden["prompts"]) {
    const auto ids = prompt["token_ids"].get<std::vector<int32_t>>();
    const auto greedy = prompt["greedy_token_ids"].get<std::vector<int32_t>>();
    const auto margins = prompt["greedy_margins"].get<std::vector<double>>();
    const ParityModel::Answer answer = model.run(ids, static_cast<int64_t>(greedy.size()));
    const auto last = log_softmax(prompt["last_logits"].get<std::vector<double>>());
    ASSERT_EQ(last.size(), answer.last.size());
    for (size_t i = 0; i < last.size(); ++i) ASSERT_NEAR(answer.last[i], last[i], tolerance) << "token " << i;
    const auto scores = prompt["prompt_logprobs"].get<std::vector<double>>();
    ASSERT_EQ(scores.size(), answer.prompt.size());
    for (size_t i = 0; i < scores.size(); ++i) ASSERT_NEAR(answer.prompt[i][0].logprob, scores[i], tolerance) << i;
    for (size_t i = 0; i < greedy.size() && margins[i] > margin; ++i) ASSERT_EQ(answer.greedy[i], greedy[i]) << i;
  }
}

}  // namespace quire::testing

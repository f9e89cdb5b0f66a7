#include "parity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "engine/thread_ranks.h"
#include "tensor/convert.h"

namespace quire::testing {

std::string golden_models() { return std::string(QUIRE_TESTS_DIR) + "/golden/models"; }

ParityModel::ParityModel(const std::string& path, EngineConfig config) : config_(std::move(config)) {
  config_.model = path;
  config_.offline = true;
  if (!config_.num_kv_blocks_override) config_.num_kv_blocks_override = 64;
  auto checkpoint = open_checkpoint(path);
  if (!checkpoint.ok()) throw std::runtime_error(checkpoint.error().message);
  auto loaded = create_threaded_executor(config_, std::move(*checkpoint));
  if (!loaded.ok()) throw std::runtime_error(loaded.error().message);
  loaded_ = std::move(*loaded);
}

uint64_t ParityModel::load_adapter(const std::string& folder) {
  auto files = AdapterFiles::open(folder);
  if (!files.ok()) throw std::runtime_error(files.error().message);
  const auto summary = loaded_.executor->load_adapter(++last_adapter_, **files);
  if (!summary.ok()) throw std::runtime_error(summary.error().message);
  return last_adapter_;
}

ParityModel::Answer ParityModel::run(const std::vector<int32_t>& prompt, int64_t steps, int64_t chunk,
                                     uint64_t adapter) {
  return run_together({{prompt, steps, chunk, adapter}}).front();
}

namespace {

/// A request on its way.
struct Sequence {
  ParityModel::Work work;
  std::vector<int32_t> tokens;
  std::vector<int32_t> blocks;
  std::vector<std::span<const int32_t>> tables;
  int64_t computed = 0;
  ParityModel::Answer answer;

  int64_t left() const { return static_cast<int64_t>(tokens.size()) - computed; }
  bool done() const { return static_cast<int64_t>(answer.greedy.size()) >= std::max<int64_t>(work.steps, 1); }

  ScheduledSequence next(const SamplingParams& params) const {
    const int64_t count = std::min(work.chunk, left());
    const std::span<const int32_t> all(tokens);
    ScheduledSequence sequence;
    sequence.tokens = all.subspan(static_cast<size_t>(computed), static_cast<size_t>(count));
    sequence.start = computed;
    sequence.block_tables = tables;
    sequence.sample = count == left();
    sequence.sampling = {&params, 0, static_cast<int64_t>(tokens.size()), 0};
    sequence.adapter_id = work.adapter;
    const int64_t known = std::min(computed + count, static_cast<int64_t>(work.prompt.size()) - 1) - computed;
    if (known > 0) {
      sequence.next_prompt_tokens = all.subspan(static_cast<size_t>(computed) + 1, static_cast<size_t>(known));
    }
    return sequence;
  }

  void take(const ScheduledSequence& scheduled, SequenceResult&& result, int64_t vocab_size) {
    for (SampledToken& scored : result.prompt_logprobs) answer.prompt.push_back(std::move(scored.logprobs));
    computed += static_cast<int64_t>(scheduled.tokens.size());
    if (!scheduled.sample) return;
    SampledToken& token = result.token;
    if (answer.greedy.empty()) {
      answer.last.resize(static_cast<size_t>(vocab_size));
      for (const TokenLogprob& entry : token.logprobs) answer.last[static_cast<size_t>(entry.token)] = entry.logprob;
    }
    answer.greedy.push_back(token.token);
    answer.greedy_logprobs.push_back(std::move(token.logprobs));
    tokens.push_back(token.token);
  }
};

}  // namespace

std::vector<ParityModel::Answer> ParityModel::run_together(const std::vector<Work>& works) {
  SamplingParams params;
  params.temperature = 0;
  params.logprobs = vocab_size();
  std::vector<Sequence> sequences;
  auto next_block = static_cast<int32_t>(*config_.num_kv_blocks_override);
  for (const Work& work : works) {
    Sequence sequence{work, work.prompt, {}, {}, 0, {}};
    const int64_t length = static_cast<int64_t>(work.prompt.size()) + work.steps;
    for (int64_t position = 0; position < length; position += config_.block_size) {
      sequence.blocks.push_back(--next_block);
      if (next_block < 0) throw std::runtime_error("too few blocks");
    }
    sequences.push_back(std::move(sequence));
  }
  for (Sequence& sequence : sequences) {
    sequence.tables.assign(loaded_.executor->kv_cache_groups().size(), sequence.blocks);
  }
  while (true) {
    std::vector<Sequence*> running;
    for (Sequence& sequence : sequences) {
      if (!sequence.done()) running.push_back(&sequence);
    }
    if (running.empty()) break;
    std::ranges::stable_sort(running, {}, [](const Sequence* sequence) { return sequence->work.adapter; });
    StepPlan plan;
    for (const Sequence* sequence : running) {
      plan.sequences.push_back(sequence->next(params));
      plan.total_tokens += static_cast<int64_t>(plan.sequences.back().tokens.size());
    }
    StepResult result;
    const Status status = loaded_.executor->execute(plan, result);
    if (!status.ok()) throw std::runtime_error(status.error().message);
    for (size_t i = 0; i < running.size(); ++i) {
      running[i]->take(plan.sequences[i], std::move(result.sequences[i]), vocab_size());
    }
  }
  std::vector<Answer> answers;
  for (Sequence& sequence : sequences) answers.push_back(std::move(sequence.answer));
  return answers;
}

void expect_same_answer(const ParityModel::Answer& got, const ParityModel::Answer& expected) {
  const auto same = [](const std::vector<std::vector<TokenLogprob>>& a,
                       const std::vector<std::vector<TokenLogprob>>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(a[i].size(), b[i].size());
      for (size_t k = 0; k < a[i].size(); ++k) {
        ASSERT_EQ(a[i][k].token, b[i][k].token) << i;
        ASSERT_EQ(a[i][k].logprob, b[i][k].logprob) << i;
      }
    }
  };
  ASSERT_EQ(got.last, expected.last);
  ASSERT_EQ(got.greedy, expected.greedy);
  same(got.prompt, expected.prompt);
  same(got.greedy_logprobs, expected.greedy_logprobs);
}

std::vector<int32_t> prompt_of(int64_t length, int32_t step) {
  std::vector<int32_t> prompt{1};
  for (int32_t i = 1; i < length; ++i) prompt.push_back(5 + (i * step) % 490);
  return prompt;
}

void expect_same_bits_in_any_company(ParityModel& model, ParityModel& again, std::vector<ParityModel::Work> works) {
  std::vector<ParityModel::Answer> alone;
  for (const ParityModel::Work& work : works)
    alone.push_back(model.run(work.prompt, work.steps, 1 << 20, work.adapter));
  expect_same_answer(again.run(works[1].prompt, works[1].steps), alone[1]);
  for (const int64_t chunk : {int64_t{1} << 20, int64_t{16}, int64_t{7}}) {
    for (ParityModel::Work& work : works) work.chunk = chunk;
    const std::vector<ParityModel::Answer> together = model.run_together(works);
    for (size_t i = 0; i < works.size(); ++i) {
      SCOPED_TRACE("chunk " + std::to_string(chunk) + ", request " + std::to_string(i));
      expect_same_answer(together[i], alone[i]);
    }
  }
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

void expect_golden(const ParityModel::Answer& answer, const nlohmann::json& prompt, double tolerance, double margin) {
  const auto greedy = prompt["greedy_token_ids"].get<std::vector<int32_t>>();
  const auto margins = prompt["greedy_margins"].get<std::vector<double>>();
  const auto last = log_softmax(prompt["last_logits"].get<std::vector<double>>());
  ASSERT_EQ(last.size(), answer.last.size());
  for (size_t i = 0; i < last.size(); ++i) ASSERT_NEAR(answer.last[i], last[i], tolerance) << "token " << i;
  const auto scores = prompt["prompt_logprobs"].get<std::vector<double>>();
  ASSERT_EQ(scores.size(), answer.prompt.size());
  for (size_t i = 0; i < scores.size(); ++i) ASSERT_NEAR(answer.prompt[i][0].logprob, scores[i], tolerance) << i;
  ASSERT_EQ(answer.greedy.size(), greedy.size());
  for (size_t i = 0; i < greedy.size() && margins[i] > margin; ++i) ASSERT_EQ(answer.greedy[i], greedy[i]) << i;
}

nlohmann::json read_golden(const std::string& folder) {
  std::ifstream file(folder + "/golden.json");
  if (!file) throw std::runtime_error("no golden.json in " + folder);
  return nlohmann::json::parse(file);
}

nlohmann::json read_adapter_prompts(const std::string& model_folder, const std::string& adapter) {
  const std::string folder = model_folder + "/" + adapter;
  if (std::filesystem::exists(folder + "/golden.json")) return read_golden(folder).at("prompts");
  return read_golden(model_folder).at("adapters").at(adapter).at("prompts");
}

void expect_parity(const std::string& folder, EngineConfig config) {
  ParityModel model(folder, std::move(config));
  const nlohmann::json golden = read_golden(folder);
  for (const auto& prompt : golden.at("prompts")) {
    const auto steps = static_cast<int64_t>(prompt["greedy_token_ids"].size());
    expect_golden(model.run(prompt["token_ids"].get<std::vector<int32_t>>(), steps), prompt);
  }
}

}  // namespace quire::testing

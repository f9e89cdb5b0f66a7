// A Hugging Face folder with a golden.json, run through the real executor without scheduler or server.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/create_executor.h"
#include "ops/cpu/kernel_table.h"

namespace quire::testing {

/// tests/golden/models.
std::string golden_models();

/// A loaded model whose steps the test plans by itself. Ranks of a tensor parallel size above 1 are threads.
class ParityModel {
 public:
  explicit ParityModel(const std::string& path, EngineConfig config = {});

  /// Loads a PEFT folder and gives its id.
  uint64_t load_adapter(const std::string& folder);
  Executor& executor() { return *loaded_.executor; }

  /// What to compute: a prompt in chunks of `chunk` tokens, then `steps` greedy tokens.
  struct Work {
    std::vector<int32_t> prompt;
    int64_t steps = 1;
    int64_t chunk = 1 << 20;
    uint64_t adapter = 0;
  };
  struct Answer {
    std::vector<std::vector<TokenLogprob>> prompt;  ///< per prompt token from the second on: chosen first
    std::vector<float> last;                        ///< log-probability of every token after the prompt
    std::vector<int32_t> greedy;
    std::vector<std::vector<TokenLogprob>> greedy_logprobs;
  };

  Answer run(const std::vector<int32_t>& prompt, int64_t steps, int64_t chunk = 1 << 20, uint64_t adapter = 0);
  /// All in one batch, ordered by adapter.
  std::vector<Answer> run_together(const std::vector<Work>& works);

  int64_t vocab_size() const { return loaded_.limits.vocab_size; }

 private:
  EngineConfig config_;
  LoadedExecutor loaded_;
  uint64_t last_adapter_ = 0;
};

/// All log-probabilities of two answers are equal bit for bit, and so are the tokens.
void expect_same_answer(const ParityModel::Answer& got, const ParityModel::Answer& expected);

/// A prompt of any tokens of the golden models' vocabularies; others with another step.
std::vector<int32_t> prompt_of(int64_t length, int32_t step = 37);

/// Each of `works` has the same bits alone as together with the others, in chunks of any length; and the second, of the
/// base model, also in `again`, the same model loaded once more.
void expect_same_bits_in_any_company(ParityModel& model, ParityModel& again, std::vector<ParityModel::Work> works);

/// While it lives, bfloat16 weights are widened, also where this CPU's dot product would take rows rounded to bfloat16.
class WidenedWeights {
 public:
  WidenedWeights() {
    table_.bf16_pairs = nullptr;
    table_.bf16_pair_attention = nullptr;
  }

 private:
  ops::cpu::KernelTable table_ = ops::cpu::kernels();
  ops::cpu::KernelOverride override_{table_};
};

/// A copy of a Hugging Face folder (removed at exit) whose weights are all rounded to bfloat16.
std::string rounded_copy(const std::string& folder);

/// Checks an answer against one prompt of a golden.json: log-probabilities to `tolerance`, greedy tokens where the
/// margin is above `margin`.
void expect_golden(const ParityModel::Answer& answer, const nlohmann::json& prompt, double tolerance = 1e-4,
                   double margin = 1e-3);

/// Checks every prompt of `folder`/golden.json for the base model.
void expect_parity(const std::string& folder, EngineConfig config = {});

nlohmann::json read_golden(const std::string& folder);

/// The prompts of an adapter in a model's folder: of its own golden.json if it has one, else of the model's.
nlohmann::json read_adapter_prompts(const std::string& model_folder, const std::string& adapter);

}  // namespace quire::testing

// Turns a step's plan into one flat batch, runs the model over it, and samples the rows that need it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "engine/stage_link.h"
#include "engine/step_plan.h"
#include "kv_cache/kv_cache_storage.h"
#include "layers/forward_batch.h"
#include "lora/lora_manager.h"
#include "models/model.h"
#include "tensor/op_context.h"

namespace quire {

/// One rank's worker for steps. Keeps its buffers from step to step.
class ModelRunner {
 public:
  /// All must outlive it.
  ModelRunner(OpContext& context, Model& model, const KvCacheStorage& kv_cache, const LoraManager& adapters,
              int64_t block_size, StageLink stages);

  /// Runs `plan` and fills `result` in its order; with several ranks rank 0's alone. An Error, before anything has run,
  /// where the plan names an adapter that is not loaded; else where the ranks could not meet.
  Status run(const StepPlan& plan, StepResult& result);

 private:
  /// A row of the model's output whose logits score the prompt token that follows it.
  struct ScoredRow {
    int32_t row;
    int32_t next_token;
    int64_t count;
    size_t sequence;
  };

  /// Looks up the plan's adapters, once for the whole step.
  Status find_adapters(const StepPlan& plan);
  void collect_rows(const StepPlan& plan);
  /// Asks for the hidden states of a row of the batch; its place among the model's output rows.
  int32_t add_output_row(int32_t row);
  void build_batch(const StepPlan& plan);
  /// Logits of some rows of the model's output, where this rank is to sample them.
  Tensor logits_of(const Tensor& hidden, std::span<const int32_t> rows, std::span<const AdapterSegment> adapters);
  void sample_rows(const StepPlan& plan, const Tensor& hidden, StepResult& result);
  void score_rows(const Tensor& hidden, StepResult& result);
  /// Counts `count` more rows, after all that were counted before, as the adapter's of that sequence.
  void add_rows(size_t sequence, int64_t row, int64_t count, std::vector<AdapterSegment>& segments) const;

  OpContext& context_;
  Model& model_;
  const KvCacheStorage& kv_cache_;
  const LoraManager& adapters_;
  int64_t block_size_;
  StageLink stages_;

  ForwardBatch batch_;
  std::vector<int32_t> token_ids_, positions_, output_rows_;
  std::vector<int32_t> sampled_rows_;  ///< among the output rows
  std::vector<int64_t> slots_;
  std::vector<SamplingRow> sampling_;
  std::vector<size_t> sampled_sequences_;
  std::vector<SampledToken> sampled_;
  std::vector<ScoredRow> scored_;
  std::vector<std::shared_ptr<const LoraAdapter>> sequence_adapters_;  ///< nullptr for the base model
  std::vector<AdapterSegment> token_segments_, output_segments_, sampled_segments_, scored_segments_;
};

}  // namespace quire

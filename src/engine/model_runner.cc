#include "engine/model_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ops/copy.h"

namespace quire {

namespace {
/// Rows of logits held at a time while prompt tokens are scored: never a tokens x vocabulary buffer.
constexpr size_t kScoreRows = 32;

/// A model from outside may compute anything.
void check_rows(const char* what, const Tensor& got, int64_t rows, int64_t cols) {
  if ((got.defined() || rows == 0) && got.dtype() == DType::kFloat32 && got.rows() == rows && got.cols() == cols)
    return;
  throw CheckFailure(fmt::format("the model gave {} of shape [{}, {}] where [{}, {}] is needed", what, got.rows(),
                                 got.cols(), rows, cols));
}
}  // namespace

ModelRunner::ModelRunner(OpContext& context, Model& model, const KvCacheStorage& kv_cache, const LoraManager& adapters,
                         int64_t block_size, StageLink stages)
    : context_(context),
      model_(model),
      kv_cache_(kv_cache),
      adapters_(adapters),
      block_size_(block_size),
      stages_(std::move(stages)) {
  batch_.context = &context_;
  batch_.kv_cache = &kv_cache_;
  batch_.groups.resize(static_cast<size_t>(kv_cache_.group_count()));
}

Status ModelRunner::run(const StepPlan& plan, StepResult& result) {
  const Workspace::Scope scope(*context_.workspace);
  context_.failure.reset();
  result.sequences.assign(plan.sequences.size(), {});
  QUIRE_RETURN_IF_ERROR(find_adapters(plan));
  collect_rows(plan);
  build_batch(plan);
  stages_.receive(batch_);
  const Tensor hidden = model_.forward(batch_);
  if (stages_.is_last()) check_rows("hidden states", hidden, static_cast<int64_t>(output_rows_.size()), hidden.cols());
  stages_.send(batch_);
  sample_rows(plan, hidden, result);
  score_rows(hidden, result);
  sequence_adapters_.clear();
  if (context_.failure) return *context_.failure;
  return {};
}

Status ModelRunner::find_adapters(const StepPlan& plan) {
  sequence_adapters_.assign(plan.sequences.size(), nullptr);
  for (size_t index = 0; index < plan.sequences.size(); ++index) {
    const uint64_t id = plan.sequences[index].adapter_id;
    if (id == 0) continue;
    const bool same = index > 0 && plan.sequences[index - 1].adapter_id == id;
    sequence_adapters_[index] = same ? sequence_adapters_[index - 1] : adapters_.find(id);
    if (sequence_adapters_[index] == nullptr) {
      sequence_adapters_.clear();
      return internal_error(fmt::format("a step names adapter {}, which is not loaded", id));
    }
  }
  return {};
}

void ModelRunner::add_rows(size_t sequence, int64_t row, int64_t count, std::vector<AdapterSegment>& segments) const {
  const LoraAdapter* const adapter = sequence_adapters_[sequence].get();
  if (adapter == nullptr || count == 0) return;
  if (!segments.empty() && segments.back().adapter == adapter &&
      segments.back().row_begin + segments.back().row_count == row) {
    segments.back().row_count += count;
  } else {
    segments.push_back({row, count, adapter});
  }
}

void ModelRunner::collect_rows(const StepPlan& plan) {
  token_ids_.clear();
  positions_.clear();
  output_rows_.clear();
  sampled_rows_.clear();
  sampling_.clear();
  sampled_sequences_.clear();
  scored_.clear();
  token_segments_.clear();
  output_segments_.clear();
  sampled_segments_.clear();
  for (size_t index = 0; index < plan.sequences.size(); ++index) {
    const ScheduledSequence& sequence = plan.sequences[index];
    const auto first_row = static_cast<int32_t>(token_ids_.size());
    const auto first_output = static_cast<int64_t>(output_rows_.size());
    add_rows(index, first_row, static_cast<int64_t>(sequence.tokens.size()), token_segments_);
    token_ids_.insert(token_ids_.end(), sequence.tokens.begin(), sequence.tokens.end());
    for (size_t i = 0; i < sequence.tokens.size(); ++i) {
      positions_.push_back(static_cast<int32_t>(sequence.start + static_cast<int64_t>(i)));
    }
    for (size_t i = 0; i < sequence.next_prompt_tokens.size(); ++i) {
      const int32_t output = add_output_row(first_row + static_cast<int32_t>(i));
      scored_.push_back({output, sequence.next_prompt_tokens[i], sequence.prompt_logprob_count, index});
    }
    if (sequence.sample) {
      add_rows(index, static_cast<int64_t>(sampled_rows_.size()), 1, sampled_segments_);
      sampled_rows_.push_back(add_output_row(static_cast<int32_t>(token_ids_.size()) - 1));
      sampling_.push_back(sequence.sampling);
      sampled_sequences_.push_back(index);
    }
    add_rows(index, first_output, static_cast<int64_t>(output_rows_.size()) - first_output, output_segments_);
  }
}

int32_t ModelRunner::add_output_row(int32_t row) {
  if (output_rows_.empty() || output_rows_.back() != row) output_rows_.push_back(row);
  return static_cast<int32_t>(output_rows_.size()) - 1;
}

void ModelRunner::build_batch(const StepPlan& plan) {
  Workspace& workspace = *context_.workspace;
  const auto tokens = static_cast<int64_t>(token_ids_.size());
  batch_.output_rows = output_rows_;
  batch_.adapters = token_segments_;
  batch_.output_adapters = output_segments_;
  batch_.token_ids = workspace.tensor(1, tokens, DType::kInt32);
  batch_.positions = workspace.tensor(1, tokens, DType::kInt32);
  ops::copy_from_host(context_, std::span<const int32_t>(token_ids_), batch_.token_ids);
  ops::copy_from_host(context_, std::span<const int32_t>(positions_), batch_.positions);
  for (size_t group = 0; group < batch_.groups.size(); ++group) {
    KvGroupBatch& tables = batch_.groups[group];
    tables.sequences.clear();
    slots_.clear();
    int64_t row = 0;
    for (const ScheduledSequence& sequence : plan.sequences) {
      const std::span<const int32_t> blocks = sequence.block_tables[group];
      const auto count = static_cast<int64_t>(sequence.tokens.size());
      for (int64_t position = sequence.start; position < sequence.start + count; ++position) {
        const int64_t block = blocks[static_cast<size_t>(position / block_size_)];
        slots_.push_back(block < 0 ? -1 : block * block_size_ + position % block_size_);
      }
      tables.sequences.push_back({row, count, sequence.start + count, blocks});
      row += count;
    }
    tables.slots = workspace.tensor(1, tokens, DType::kInt64);
    ops::copy_from_host(context_, std::span<const int64_t>(slots_), tables.slots);
  }
}

Tensor ModelRunner::logits_of(const Tensor& hidden, std::span<const int32_t> rows,
                              std::span<const AdapterSegment> adapters) {
  Tensor logits;
  const auto count = static_cast<int64_t>(rows.size());
  if (stages_.is_last()) {
    Tensor selected = context_.workspace->tensor(count, hidden.cols());
    ops::select_rows(context_, hidden, rows, selected);
    logits = model_.compute_logits(context_, selected, adapters);
    if (logits.defined()) check_rows("logits", logits, count, stages_.vocab_size());
  }
  return stages_.pass_logits(logits, count);
}

void ModelRunner::sample_rows(const StepPlan& plan, const Tensor& hidden, StepResult& result) {
  if (sampled_rows_.empty()) return;
  QUIRE_CHECK(plan.sequences.size() == result.sequences.size());
  const Workspace::Scope scope(*context_.workspace);
  const Tensor logits = logits_of(hidden, sampled_rows_, sampled_segments_);
  if (!logits.defined()) return;  // rank 0 has them
  sampled_.assign(sampled_rows_.size(), {});
  sample(context_, logits, sampling_, sampled_);
  for (size_t i = 0; i < sampled_.size(); ++i) {
    result.sequences[sampled_sequences_[i]].token = std::move(sampled_[i]);
  }
}

void ModelRunner::score_rows(const Tensor& hidden, StepResult& result) {
  for (size_t begin = 0; begin < scored_.size(); begin += kScoreRows) {
    const Workspace::Scope scope(*context_.workspace);
    const size_t count = std::min(kScoreRows, scored_.size() - begin);
    std::vector<int32_t> row_indices(count);
    std::vector<int32_t> next_tokens(count);
    std::vector<int64_t> counts(count);
    scored_segments_.clear();
    for (size_t i = 0; i < count; ++i) {
      add_rows(scored_[begin + i].sequence, static_cast<int64_t>(i), 1, scored_segments_);
      row_indices[i] = scored_[begin + i].row;
      next_tokens[i] = scored_[begin + i].next_token;
      counts[i] = scored_[begin + i].count;
    }
    const Tensor logits = logits_of(hidden, row_indices, scored_segments_);
    if (!logits.defined()) continue;
    std::vector<SampledToken> scores(count);
    score(context_, logits, next_tokens, counts, scores);
    for (size_t i = 0; i < count; ++i) {
      result.sequences[scored_[begin + i].sequence].prompt_logprobs.push_back(std::move(scores[i]));
    }
  }
}

}  // namespace quire

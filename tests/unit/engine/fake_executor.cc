#include "engine/fake_executor.h"

#include <algorithm>
#include <string>

namespace quire {
namespace {

uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9e3779b97f4a7c15u + b + 0x632be59bd9b4e019u;
  x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
  return x ^ (x >> 32);
}

uint64_t first_key(uint64_t adapter_id) { return mix(77, adapter_id); }

int32_t next_token(uint64_t key, int64_t position, uint64_t seed) {
  return static_cast<int32_t>(mix(mix(key, static_cast<uint64_t>(position)), seed) % kFakeVocabulary);
}

float fake_logprob(uint64_t key) { return -static_cast<float>(key % 10007) / 1000.0f; }

bool sliding(const KvCacheGroup& group) { return group.spec.kind == KvCacheKind::kSlidingWindow; }

}  // namespace

KvCacheGroup full_group() { return {.spec = {.kv_heads = 1, .k_dim = 8, .v_dim = 8}, .layers = {0}}; }

KvCacheGroup sliding_group(int64_t window) {
  return {.spec = {.kind = KvCacheKind::kSlidingWindow, .kv_heads = 1, .k_dim = 8, .v_dim = 8, .window = window},
          .layers = {1}};
}

std::vector<int32_t> reference_tokens(std::vector<int32_t> tokens, int64_t count, uint64_t adapter_id, uint64_t seed) {
  uint64_t key = first_key(adapter_id);
  for (const int32_t token : tokens) key = mix(key, static_cast<uint64_t>(token));
  std::vector<int32_t> output;
  for (int64_t i = 0; i < count; ++i) {
    output.push_back(next_token(key, static_cast<int64_t>(tokens.size()) + i, seed));
    key = mix(key, static_cast<uint64_t>(output.back()));
  }
  return output;
}

FakeExecutor::FakeExecutor(std::vector<KvCacheGroup> groups, std::vector<int64_t> blocks_per_group, int64_t block_size,
                           std::shared_ptr<FakeLog> log)
    : groups_(std::move(groups)), block_size_(block_size), log_(std::move(log)) {
  for (const int64_t blocks : blocks_per_group) shadow_.emplace_back(blocks * block_size);
}

void FakeExecutor::fail(const std::string& what) {
  const std::lock_guard lock(log_->mutex);
  log_->errors.push_back(what);
}

FakeExecutor::Slot* FakeExecutor::slot(const ScheduledSequence& sequence, size_t group, int64_t position) {
  const auto table = sequence.block_tables[group];
  const int64_t index = position / block_size_;
  if (index >= static_cast<int64_t>(table.size())) return nullptr;
  const int64_t at = table[index] * block_size_ + position % block_size_;
  if (table[index] < 0 || at >= static_cast<int64_t>(shadow_[group].size())) return nullptr;
  return &shadow_[group][at];
}

uint64_t FakeExecutor::key_at(const ScheduledSequence& sequence, int64_t position) {
  if (position < 0) return first_key(sequence.adapter_id);
  const Slot* found = slot(sequence, 0, position);
  return found == nullptr ? 0 : found->key;
}

void FakeExecutor::write(const ScheduledSequence& sequence) {
  uint64_t previous = key_at(sequence, sequence.start - 1);
  for (size_t i = 0; i < sequence.tokens.size(); ++i) {
    const int64_t position = sequence.start + static_cast<int64_t>(i);
    const uint64_t key = mix(previous, static_cast<uint64_t>(sequence.tokens[i]));
    for (size_t group = 0; group < groups_.size(); ++group) {
      Slot* target = slot(sequence, group, position);
      if (target == nullptr) {
        fail("no block to write position " + std::to_string(position) + " of group " + std::to_string(group));
      } else {
        *target = {position, previous, key};
      }
    }
    previous = key;
  }
}

/// Every position that the sequence's queries see must hold the key that continues the one before it.
void FakeExecutor::verify(const ScheduledSequence& sequence) {
  const int64_t end = sequence.start + static_cast<int64_t>(sequence.tokens.size());
  for (size_t group = 0; group < groups_.size(); ++group) {
    const int64_t window = groups_[group].spec.window;
    const int64_t first = sliding(groups_[group]) ? std::max<int64_t>(0, sequence.start - window + 1) : 0;
    for (int64_t block = 0; block < first / block_size_; ++block) {
      if (sequence.block_tables[group][block] != -1) fail("a block outside the window is still held");
    }
    bool known = first == 0;
    uint64_t previous = first_key(sequence.adapter_id);
    for (int64_t position = first; position < end; ++position) {
      const Slot* found = slot(sequence, group, position);
      if (found == nullptr || found->position != position || (known && found->previous != previous)) {
        fail("wrong page under position " + std::to_string(position) + " of group " + std::to_string(group));
        break;
      }
      if (const Slot* same = slot(sequence, 0, position); group > 0 && same != nullptr && same->key != found->key) {
        fail("groups disagree on position " + std::to_string(position));
      }
      known = true;
      previous = found->key;
    }
  }
}

Status FakeExecutor::execute(const StepPlan& plan, StepResult& result) {
  if (before_step) QUIRE_RETURN_IF_ERROR(before_step(plan));
  FakeStep step{.parts = {}, .total = plan.total_tokens};
  for (const ScheduledSequence& sequence : plan.sequences) write(sequence);
  for (const ScheduledSequence& sequence : plan.sequences) {
    verify(sequence);
    const auto count = static_cast<int64_t>(sequence.tokens.size());
    step.parts.push_back({sequence.start, count, sequence.adapter_id, sequence.sample});
    SequenceResult& out = result.sequences.emplace_back();
    if (sequence.sample) {
      const uint64_t key = key_at(sequence, sequence.start + count - 1);
      out.token.token =
          next_token(key, sequence.sampling.position, sequence.sampling.params->greedy() ? 0 : sequence.sampling.seed);
      if (sequence.sampling.params->logprobs) out.token.logprobs = {{out.token.token, fake_logprob(key), 1}};
    }
    for (size_t i = 0; i < sequence.next_prompt_tokens.size(); ++i) {
      const int32_t token = sequence.next_prompt_tokens[i];
      const uint64_t key = key_at(sequence, sequence.start + static_cast<int64_t>(i));
      SampledToken scored{token, {{token, fake_logprob(key), 1}}};
      for (int64_t k = 0; k < sequence.prompt_logprob_count; ++k)
        scored.logprobs.push_back({static_cast<int32_t>(k), 0.0f, k + 1});
      out.prompt_logprobs.push_back(std::move(scored));
    }
  }
  const std::lock_guard lock(log_->mutex);
  log_->steps.push_back(std::move(step));
  return {};
}

}  // namespace quire

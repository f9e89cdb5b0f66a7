// An executor without a model: a position's "key" is a hash of all tokens up to it, kept in a shadow of the paged
// cache, and the next token is a hash of the last key. It checks every position that a sequence attends to, so that a
// wrong, stale or overwritten block shows at once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/executor.h"

namespace quire {

constexpr int32_t kFakeVocabulary = 1000;

struct FakeStep {
  struct Part {
    int64_t start = 0, tokens = 0;
    uint64_t adapter_id = 0;
    bool sample = false;
  };
  std::vector<Part> parts;
  int64_t total = 0;
};

/// What the executor saw, shared with the test. Guarded by the mutex where the engine has a thread.
struct FakeLog {
  mutable std::mutex mutex;
  std::vector<std::string> errors;
  std::vector<FakeStep> steps;
};

class FakeExecutor : public Executor {
 public:
  FakeExecutor(std::vector<KvCacheGroup> groups, std::vector<int64_t> blocks_per_group, int64_t block_size,
               std::shared_ptr<FakeLog> log);

  const std::vector<KvCacheGroup>& kv_cache_groups() const override { return groups_; }
  Status execute(const StepPlan& plan, StepResult& result) override;

  /// Called before each step; what it returns or throws is the step's fate.
  std::function<Status(const StepPlan&)> before_step;

 private:
  struct Slot {
    int64_t position = -1;
    uint64_t previous = 0;  ///< key of the position before
    uint64_t key = 0;
  };

  void write(const ScheduledSequence& sequence);
  void verify(const ScheduledSequence& sequence);
  Slot* slot(const ScheduledSequence& sequence, size_t group, int64_t position);
  uint64_t key_at(const ScheduledSequence& sequence, int64_t position);
  void fail(const std::string& what);

  std::vector<KvCacheGroup> groups_;
  int64_t block_size_;
  std::vector<std::vector<Slot>> shadow_;  ///< [group][block * block_size + offset]
  std::shared_ptr<FakeLog> log_;
};

KvCacheGroup full_group();
KvCacheGroup sliding_group(int64_t window);

/// What the fake model gives a prompt, computed without any cache.
std::vector<int32_t> reference_tokens(std::vector<int32_t> tokens, int64_t count, uint64_t adapter_id = 0,
                                      uint64_t seed = 0);

}  // namespace quire

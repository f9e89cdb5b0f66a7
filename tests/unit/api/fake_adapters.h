// Adapters without weights: a path's last part is the version that the adapter's tokens tell, and the executor notes
// every use of an adapter that is not in memory.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "api/async_llm.h"
#include "fake_model.h"

namespace quire::test {

/// What is in memory, shared by the loader's side and the executor's.
struct AdapterShelf {
  std::mutex mutex;
  std::map<uint64_t, int32_t> versions;  ///< by id
  std::set<uint64_t> used_ids;
  std::vector<std::string> errors;
  std::atomic<int> loads{0};
  /// Called by each load before it is done.
  std::function<void(const std::string& path)> on_load;

  size_t size() {
    const std::lock_guard lock(mutex);
    return versions.size();
  }
  std::vector<std::string> faults() {
    const std::lock_guard lock(mutex);
    return errors;
  }
};

/// Takes paths such as "v3"; refuses those that begin with "bad", and knows none that begin with "missing".
class FakeAdapterMemory final : public AdapterMemory {
 public:
  explicit FakeAdapterMemory(std::shared_ptr<AdapterShelf> shelf) : shelf_(std::move(shelf)) {}

  Result<AdapterSummary> load(uint64_t id, const std::filesystem::path& folder) override {
    const std::string name = folder.filename().string();
    ++shelf_->loads;
    if (shelf_->on_load) shelf_->on_load(name);
    if (name.starts_with("missing")) return not_found("There is no LoRA adapter at " + name + ".", "lora_path");
    if (name.starts_with("bad")) return invalid_argument(name + " is no adapter.");
    const std::lock_guard lock(shelf_->mutex);
    if (!shelf_->used_ids.insert(id).second || id == 0) shelf_->errors.push_back("an id was used twice");
    shelf_->versions[id] = name.size() > 1 && name[0] == 'v' ? std::stoi(name.substr(1)) : 1;
    return AdapterSummary{8, 4, 1000};
  }
  void remove(uint64_t id) override {
    const std::lock_guard lock(shelf_->mutex);
    if (shelf_->versions.erase(id) == 0) shelf_->errors.push_back("removed what is not there");
  }

 private:
  const std::shared_ptr<AdapterShelf> shelf_;
};

/// Every token of a sequence tells its adapter's version: 100 + version; 100 for the base model.
class AdapterExecutor final : public Executor {
 public:
  AdapterExecutor(std::shared_ptr<AdapterShelf> shelf, std::chrono::microseconds step)
      : shelf_(std::move(shelf)), step_(step) {
    groups_.push_back({KvCacheSpec{KvCacheKind::kFullAttention, 1, 8, 8, 0}, {0}});
  }
  const std::vector<KvCacheGroup>& kv_cache_groups() const override { return groups_; }

  Status execute(const StepPlan& plan, StepResult& result) override {
    std::this_thread::sleep_for(step_);
    const std::lock_guard lock(shelf_->mutex);
    result.sequences.assign(plan.sequences.size(), {});
    for (size_t i = 0; i < plan.sequences.size(); ++i) {
      const uint64_t id = plan.sequences[i].adapter_id;
      const auto found = shelf_->versions.find(id);
      if (id != 0 && found == shelf_->versions.end()) shelf_->errors.push_back("a step names an adapter that is gone");
      result.sequences[i].token = {100 + (id == 0 || found == shelf_->versions.end() ? 0 : found->second), {}};
    }
    return {};
  }

 private:
  const std::shared_ptr<AdapterShelf> shelf_;
  const std::chrono::microseconds step_;
  std::vector<KvCacheGroup> groups_;
};

/// An AsyncLlm over them.
class AdapterService {
 public:
  explicit AdapterService(LoraConfig lora = {}, std::chrono::microseconds step = std::chrono::microseconds(50)) {
    AsyncLlmParts parts = small_parts(std::make_unique<AdapterExecutor>(shelf, step));
    parts.config.lora = std::move(lora);
    parts.config.lora.enabled = true;
    parts.adapter_memory = [this](Engine&) { return std::make_unique<FakeAdapterMemory>(shelf); };
    llm = AsyncLlm::from_parts(std::move(parts));
  }

  /// What one request is given.
  class Answer {
   public:
    void take(TextOutput&& output) {
      const std::lock_guard lock(mutex_);
      tokens_.insert(tokens_.end(), output.token_ids.begin(), output.token_ids.end());
      finished_ = finished_ || output.finished();
      last_ = std::move(output);
      changed_.notify_all();
    }
    void wait_tokens(size_t count) {
      std::unique_lock lock(mutex_);
      EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(30), [&] { return tokens_.size() >= count; }));
    }
    std::vector<int32_t> wait() {
      std::unique_lock lock(mutex_);
      EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(30), [&] { return finished_; }));
      return tokens_;
    }
    RequestUsage usage() {
      const std::lock_guard lock(mutex_);
      return last_.usage;
    }

   private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<int32_t> tokens_;
    TextOutput last_;
    bool finished_ = false;
  };

  std::shared_ptr<Answer> submit(AdapterLease adapter, int64_t max_tokens, std::vector<int32_t> prompt = {5, 6, 7}) {
    auto answer = std::make_shared<Answer>();
    TextRequest request;
    request.id = "r" + std::to_string(next_++);
    request.prompt = std::move(prompt);
    request.sampling.max_tokens = max_tokens;
    request.sampling.ignore_eos = true;
    request.adapter = std::move(adapter);
    const Status status =
        llm->submit(std::move(request), [answer](TextOutput&& output) { answer->take(std::move(output)); });
    EXPECT_TRUE(status.ok()) << status.error().message;
    return answer;
  }

  Result<AdapterLease> acquire(const std::string& name) const {
    std::promise<Result<AdapterLease>> promise;
    llm->adapters()->acquire(name, [&](Result<AdapterLease> lease) { promise.set_value(std::move(lease)); });
    return promise.get_future().get();
  }
  Result<AdapterLease> load(const std::string& name, const std::string& path, bool in_place = false,
                            bool pinned = false) const {
    return llm->adapters()->load_and_wait({name, path, {}, pinned}, in_place);
  }

  std::shared_ptr<AdapterShelf> shelf = std::make_shared<AdapterShelf>();

 private:
  std::atomic<uint64_t> next_{0};

 public:
  std::unique_ptr<AsyncLlm> llm;  ///< destroyed first
};

}  // namespace quire::test

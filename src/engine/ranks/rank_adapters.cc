#include "engine/ranks/rank_adapters.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "lora/adapter_transfer.h"

namespace quire {
namespace {

// An order: nothing for the end; else a letter and the adapter's id, and to load it its files.
constexpr char kLoad = 'L';
constexpr char kRemove = 'R';
constexpr size_t kHeader = 1 + sizeof(uint64_t);

std::string order_of(char what, uint64_t id) {
  std::string order(kHeader, what);
  std::memcpy(order.data() + 1, &id, sizeof(id));
  return order;
}

/// Adds up what the ranks bring, in ascending order of ranks.
Status sum_over_ranks(GroupCoordinator& group, std::span<double> sums) {
  const auto count = static_cast<int64_t>(sums.size());
  if (count == 0) return {};
  std::vector<double> all(sums.size() * static_cast<size_t>(group.world_size()));
  const Tensor own = Tensor::view(sums.data(), 1, count, DType::kInt64, group.device());
  Tensor gathered = Tensor::view(all.data(), 1, count * group.world_size(), DType::kInt64, group.device());
  QUIRE_RETURN_IF_ERROR(group.all_gather(own, gathered));
  std::ranges::fill(sums, 0.0);
  for (size_t i = 0; i < all.size(); ++i) sums[i % sums.size()] += all[i];
  return {};
}

/// Packs one adapter together with the other ranks, which all call this: each has it afterwards, or none.
Result<AdapterSummary> load_together(Worker& worker, RankGroups& groups, uint64_t id,
                                     const Result<std::shared_ptr<const AdapterFiles>>& files) {
  bool met = false;
  const auto meet = [&](const Status& own, std::span<double> sums) -> Status {
    met = true;
    QUIRE_RETURN_IF_ERROR(agree(*groups.adapters, own));
    return sum_over_ranks(*groups.adapter_parts, sums);
  };
  Result<AdapterSummary> own = internal_error("not loaded");
  try {
    own = files.ok() ? worker.adapters().load(id, **files, meet) : Result<AdapterSummary>(files.error());
  } catch (const std::exception& error) {
    own = internal_error(std::string("packing the adapter failed: ") + error.what());
  }
  const Status status = own.ok() ? Status() : Status(own.error());
  // Whoever did not come to the first meeting goes there now, to tell the others why.
  if (!met) return meet(status, {}).error();
  const Status all = agree(*groups.adapters, status);
  if (all.ok()) return own;
  worker.adapters().remove(id);
  return all.error();
}

}  // namespace

Result<AdapterSummary> AdapterOrders::load(uint64_t id, const AdapterFiles& files) {
  std::string order = order_of(kLoad, id) + pack_adapter_files(files);
  const std::shared_ptr<const AdapterFiles> own(&files, [](const AdapterFiles*) {});  // the caller's
  Result<AdapterSummary> loaded = internal_error("not loaded");
  {
    const std::lock_guard lock(order_);
    loaded = send(id, order, own);
    if (loaded.ok() && keep_) {
      const std::lock_guard guard(mutex_);
      loaded_[id] = std::move(order);
    }
  }
  send_removals();
  return loaded;
}

Result<AdapterSummary> AdapterOrders::send(uint64_t id, std::string& order,
                                           const Result<std::shared_ptr<const AdapterFiles>>& files) {
  QUIRE_RETURN_IF_ERROR(groups_->adapters->broadcast_object(order));
  return load_together(worker_, *groups_, id, files);
}

Status AdapterOrders::repeat(RankGroups& groups) {
  groups_ = &groups;
  std::map<uint64_t, std::string> orders;
  {
    const std::lock_guard lock(mutex_);
    orders = loaded_;
  }
  for (auto& [id, order] : orders) {
    worker_.adapters().remove(id);  // loaded anew, since the ranks share the work
    const auto loaded = send(id, order, unpack_adapter_files(order.substr(kHeader)));
    if (!loaded.ok()) return loaded.error();
  }
  return {};
}

void AdapterOrders::remove(uint64_t id) {
  {
    const std::lock_guard lock(mutex_);
    removals_.push_back(id);
    loaded_.erase(id);
  }
  worker_.adapters().remove(id);
  send_removals();
}

// Whoever holds the group looks for removals once more after giving it up, so none is forgotten.
void AdapterOrders::send_removals() {
  while (true) {
    const std::unique_lock order(order_, std::try_to_lock);
    if (!order.owns_lock()) return;
    std::vector<uint64_t> removals;
    {
      const std::lock_guard lock(mutex_);
      removals.swap(removals_);
    }
    if (removals.empty()) return;
    for (const uint64_t id : removals) {
      worker_.adapters().remove(id);  // repeat() may have brought it back
      std::string text = order_of(kRemove, id);
      if (!groups_->adapters->broadcast_object(text).ok()) return;  // the ranks have failed, and keep nothing
    }
  }
}

void AdapterOrders::stop() {
  const std::lock_guard lock(order_);
  std::string end;
  (void)groups_->adapters->broadcast_object(end);
}

RankAdapters::RankAdapters(Worker& worker, RankGroups& groups)
    : worker_(worker), groups_(groups), thread_([this] { (void)obey(); }) {}

RankAdapters::~RankAdapters() { thread_.join(); }

Status RankAdapters::obey() {
  std::string order;
  while (true) {
    QUIRE_RETURN_IF_ERROR(groups_.adapters->broadcast_object(order));
    if (order.empty()) return {};
    QUIRE_CHECK(order.size() >= kHeader);
    uint64_t id = 0;
    std::memcpy(&id, order.data() + 1, sizeof(id));
    if (order[0] == kRemove) {
      worker_.adapters().remove(id);
    } else {
      (void)load_together(worker_, groups_, id, unpack_adapter_files(order.substr(kHeader)));
    }
  }
}

}  // namespace quire

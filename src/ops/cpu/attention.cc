// Runs the attention kernels over the plan's tasks. The worker that finishes a split unit's last segment merges the
// segments, always in ascending order.
#include "ops/cpu/kernels/attention.h"

#include <atomic>
#include <cstring>

#include "ops/cpu/attention_plan.h"
#include "ops/cpu/backend.h"
#include "ops/cpu/parallel.h"

namespace quire::ops::cpu {

static_assert(kPanelPositions == PagedKvLayer::kPanelWidth);
static_assert(kTilePositions == AttentionParams::kTile && kSegmentPositions == AttentionParams::kSegment);

namespace {

CacheStorage cache_storage_of(DType dtype) {
  if (dtype == DType::kFloat32) return CacheStorage::kFloat32;
  return dtype == DType::kBFloat16 ? CacheStorage::kBFloat16 : CacheStorage::kFloat16;
}

/// A pair of features or positions is multiplied at once: the features of a key must be even in number, and values fill
/// whole vectors.
const AttentionKernels& kernels_for_cache(const KernelTable& table, const PagedKvLayer& cache) {
  const bool pairs = table.bf16_pair_attention != nullptr && cache.dtype == DType::kBFloat16 && cache.k_dim % 2 == 0 &&
                     padded_dim(cache.v_dim) == cache.v_dim;
  return pairs ? *table.bf16_pair_attention : *table.attention;
}

SoftmaxState state_at(float* memory, int64_t rows) {
  return {memory, memory + padded_dim(rows), memory + 2 * padded_dim(rows)};
}

/// One call of paged_attention: its plan, and memory for every worker and split unit.
class AttentionRun {
 public:
  AttentionRun(const KernelTable& table, OpContext& context, const AttentionParams& params, const Tensor& q,
               const PagedKvLayer& cache, std::span<const AttentionSequence> sequences, Tensor& out)
      : kernels_(kernels_for_cache(table, cache)), params_(params), q_(q), cache_(cache), sequences_(sequences), out_(out) {
    workers_ = context.pool == nullptr ? 1 : context.pool->size();
    plan_ = plan_attention(*context.workspace, params, cache, sequences, workers_);
    unit_state_floats_ = softmax_state_floats(plan_.largest_unit, cache.v_dim);
    scratch_floats_ = plan_.largest_unit * cache.k_dim + kPassRows * kTilePositions + kTilePositions * cache.k_dim +
                      kTilePositions * padded_dim(cache.v_dim) + 2 * unit_state_floats_ + 64;
    scratch_floats_ = padded_dim(scratch_floats_);
    scratch_ = context.workspace->tensor(workers_, scratch_floats_).data<float>();
    if (plan_.states == 0) return;
    states_ = context.workspace->tensor(plan_.states, plan_.state_floats).data<float>();
    const size_t finished_bytes = plan_.units.size() * sizeof(int32_t);
    finished_ = static_cast<int32_t*>(context.workspace->allocate(finished_bytes));
    std::memset(finished_, 0, finished_bytes);
  }

  void run(const OpContext& context) {
    constexpr int64_t kWorthAFork = 4096;  // in the plan's measure: positions times rows
    const auto task = [this](int64_t index, int worker) { run_task(plan_.tasks[index], worker); };
    if (plan_.work >= kWorthAFork) {
      for_tasks(context, static_cast<int64_t>(plan_.tasks.size()), task);
    } else {
      for (size_t i = 0; i < plan_.tasks.size(); ++i) task(static_cast<int64_t>(i), 0);
    }
  }

 private:
  struct WorkerMemory {
    AttentionScratch scratch;
    SoftmaxState state;
    SoftmaxState next;
  };

  WorkerMemory memory_of(int worker, int64_t rows) const {
    WorkerMemory memory{};
    float* next = scratch_ + worker * scratch_floats_;
    const auto take = [&next](int64_t floats) {
      float* const taken = next;
      next += padded_dim(floats);
      return taken;
    };
    memory.scratch.keys = take(kTilePositions * cache_.k_dim);
    memory.scratch.values = take(kTilePositions * padded_dim(cache_.v_dim));
    memory.scratch.scores = take(kPassRows * kTilePositions);
    memory.state = state_at(take(unit_state_floats_), rows);
    memory.next = state_at(take(unit_state_floats_), rows);
    memory.scratch.queries = take(plan_.largest_unit * cache_.k_dim);
    return memory;
  }

  KvHead kv_head(const AttentionUnit& unit) const {
    const size_t element = dtype_size(cache_.dtype);
    const auto* base = static_cast<const unsigned char*>(cache_.storage.raw());
    const auto head_offset = [&](int64_t dim) {
      return static_cast<size_t>(unit.group.kv_head * cache_.block_size * dim) * element;
    };
    return {base + cache_.key_offset + head_offset(cache_.k_dim),
            base + cache_.value_offset + head_offset(cache_.v_dim),
            static_cast<size_t>(cache_.storage.row_stride()),
            sequences_[unit.sequence].blocks.data(),
            cache_.block_size,
            cache_.k_dim,
            cache_.v_dim,
            cache_storage_of(cache_.dtype)};
  }

  int64_t first_row(const AttentionUnit& unit) const {
    return sequences_[unit.sequence].query_begin + unit.first_token;
  }

  QueryRows query_rows(const AttentionUnit& unit) const {
    return {q_.row<float>(first_row(unit)) + unit.group.first_head * cache_.k_dim,
            q_.row_stride(),
            unit.tokens,
            unit.group.heads,
            unit.first_position,
            params_.scale,
            params_.softcap,
            params_.window};
  }

  void write(const AttentionUnit& unit, const QueryRows& rows, const SoftmaxState& state) {
    float* const out = out_.row<float>(first_row(unit)) + unit.group.first_head * cache_.v_dim;
    kernels_.write_output(rows, cache_.v_dim, state, out, out_.row_stride());
  }

  void run_task(const AttentionTask& task, int worker) {
    const AttentionUnit& unit = plan_.units[task.unit];
    const QueryRows rows = query_rows(unit);
    const WorkerMemory memory = memory_of(worker, unit.rows());
    kernels_.load_queries(rows, cache_.k_dim, memory.scratch.queries);
    const KvHead head = kv_head(unit);
    if (task.segment >= 0) {
      kernels_.attend_segment(head, rows, task.segment, memory.scratch, split_state(unit, task.segment));
      finish_split(task, unit, rows);
      return;
    }
    kernels_.attend_segment(head, rows, unit.first_segment, memory.scratch, memory.state);
    for (int64_t i = 1; i < unit.segments; ++i) {
      kernels_.attend_segment(head, rows, unit.first_segment + i, memory.scratch, memory.next);
      kernels_.merge_states(unit.rows(), cache_.v_dim, memory.next, memory.state);
    }
    write(unit, rows, memory.state);
  }

  SoftmaxState split_state(const AttentionUnit& unit, int64_t segment) const {
    return state_at(states_ + (unit.first_state + segment - unit.first_segment) * plan_.state_floats, unit.rows());
  }

  void finish_split(const AttentionTask& task, const AttentionUnit& unit, const QueryRows& rows) {
    const int32_t before = std::atomic_ref<int32_t>(finished_[task.unit]).fetch_add(1, std::memory_order_acq_rel);
    if (before + 1 != unit.segments) return;
    const SoftmaxState state = split_state(unit, unit.first_segment);
    for (int64_t i = 1; i < unit.segments; ++i) {
      kernels_.merge_states(unit.rows(), cache_.v_dim, split_state(unit, unit.first_segment + i), state);
    }
    write(unit, rows, state);
  }

  const AttentionKernels& kernels_;
  const AttentionParams& params_;
  const Tensor& q_;
  const PagedKvLayer& cache_;
  std::span<const AttentionSequence> sequences_;
  Tensor& out_;
  int workers_ = 1;
  AttentionPlan plan_;
  int64_t unit_state_floats_ = 0;
  int64_t scratch_floats_ = 0;
  float* scratch_ = nullptr;
  float* states_ = nullptr;
  int32_t* finished_ = nullptr;  ///< segments done, for each unit
};

}  // namespace

void paged_attention(const KernelTable& table, OpContext& context, const AttentionParams& params, const Tensor& q,
                     const PagedKvLayer& cache, std::span<const AttentionSequence> sequences, Tensor& out) {
  const Workspace::Scope scope(*context.workspace);
  AttentionRun(table, context, params, q, cache, sequences, out).run(context);
}

void write_kv(const KernelTable& table, OpContext& context, const Tensor& k, const Tensor& v, const Tensor& slots,
              const PagedKvLayer& cache) {
  auto* const base = static_cast<unsigned char*>(cache.storage.raw());
  const int64_t* const slot = slots.data<int64_t>();
  const int64_t slot_count = cache.storage.rows() * cache.block_size;
  for (int64_t token = 0; token < k.rows(); ++token) QUIRE_CHECK(slot[token] < slot_count);
  for_rows(context, k.rows(), k.cols() + v.cols(), [&](int64_t token) {
    if (slot[token] < 0) return;
    const int64_t block = slot[token] / cache.block_size;
    unsigned char* const memory = base + static_cast<size_t>(block * cache.storage.row_stride());
    const StoreCall call{k.row<float>(token),
                         v.row<float>(token),
                         memory + cache.key_offset,
                         memory + cache.value_offset,
                         slot[token] % cache.block_size,
                         cache.block_size,
                         cache.kv_heads,
                         cache.k_dim,
                         cache.v_dim,
                         cache_storage_of(cache.dtype)};
    table.attention->store_token(call);
  });
}

}  // namespace quire::ops::cpu

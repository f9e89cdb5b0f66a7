#include "ops/attention.h"

#include <algorithm>

#include "ops/checks.h"
#include "ops/cpu/backend.h"

namespace quire::ops {

namespace {

void check_cache(const PagedKvLayer& cache) {
  QUIRE_CHECK(cache.storage.dtype() == DType::kUInt8 && cache.storage.defined());
  QUIRE_CHECK(cache.dtype == DType::kFloat32 || cache.dtype == DType::kBFloat16 || cache.dtype == DType::kFloat16);
  QUIRE_CHECK(cache.block_size > 0 && cache.block_size % PagedKvLayer::kPanelWidth == 0);
  QUIRE_CHECK(cache.kv_heads > 0 && cache.k_dim > 0 && cache.v_dim > 0);
  const size_t positions = static_cast<size_t>(cache.kv_heads * cache.block_size) * dtype_size(cache.dtype);
  const auto block_bytes = static_cast<size_t>(cache.storage.cols());
  QUIRE_CHECK(cache.key_offset + positions * static_cast<size_t>(cache.k_dim) <= block_bytes);
  QUIRE_CHECK(cache.value_offset + positions * static_cast<size_t>(cache.v_dim) <= block_bytes);
}

void check_heads(const AttentionParams& params, int64_t kv_heads) {
  QUIRE_CHECK(params.query_heads > 0);
  if (params.kv_head_of_query.empty()) {
    QUIRE_CHECK(params.query_heads % kv_heads == 0);
    return;
  }
  QUIRE_CHECK(static_cast<int64_t>(params.kv_head_of_query.size()) == params.query_heads);
  QUIRE_CHECK(std::is_sorted(params.kv_head_of_query.begin(), params.kv_head_of_query.end()));
  QUIRE_CHECK(params.kv_head_of_query.front() >= 0 && params.kv_head_of_query.back() < kv_heads);
}

/// Every position that a row sees must lie in a block of the storage.
void check_sequence(const AttentionParams& params, const PagedKvLayer& cache, const AttentionSequence& sequence,
                    int64_t rows) {
  QUIRE_CHECK(sequence.query_begin >= 0 && sequence.query_count >= 0);
  QUIRE_CHECK(sequence.query_begin + sequence.query_count <= rows && sequence.query_count <= sequence.seq_len);
  if (sequence.query_count == 0) return;
  QUIRE_CHECK(static_cast<int64_t>(sequence.blocks.size()) * cache.block_size >= sequence.seq_len);
  const int64_t first_position = sequence.seq_len - sequence.query_count;
  const int64_t first_seen = params.window > 0 ? std::max<int64_t>(0, first_position - params.window + 1) : 0;
  const int64_t last_block = (sequence.seq_len - 1) / cache.block_size;
  for (int64_t i = first_seen / cache.block_size; i <= last_block; ++i) {
    QUIRE_CHECK(sequence.blocks[i] >= 0 && sequence.blocks[i] < cache.storage.rows());
  }
}

}  // namespace

void write_kv(OpContext& context, const Tensor& k, const Tensor& v, const Tensor& slots, const PagedKvLayer& cache) {
  check_cache(cache);
  QUIRE_CHECK(is_float(k, k.rows(), cache.kv_heads * cache.k_dim));
  QUIRE_CHECK(is_float(v, k.rows(), cache.kv_heads * cache.v_dim) && is_vector(slots, DType::kInt64, k.rows()));
  switch (context.device.type) {
    case DeviceType::kCpu:
      cpu::write_kv(cpu::kernels(), context, k, v, slots, cache);
  }
}

void paged_attention(OpContext& context, const AttentionParams& params, const Tensor& q, const PagedKvLayer& cache,
                     std::span<const AttentionSequence> sequences, Tensor& out) {
  check_cache(cache);
  check_heads(params, cache.kv_heads);
  QUIRE_CHECK(is_float(q, q.rows(), params.query_heads * cache.k_dim));
  QUIRE_CHECK(is_float(out, q.rows(), params.query_heads * cache.v_dim) && context.workspace != nullptr);
  for (const AttentionSequence& sequence : sequences) check_sequence(params, cache, sequence, q.rows());
  switch (context.device.type) {
    case DeviceType::kCpu:
      cpu::paged_attention(cpu::kernels(), context, params, q, cache, sequences, out);
  }
}

}  // namespace quire::ops

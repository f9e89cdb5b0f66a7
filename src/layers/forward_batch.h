// One step's tokens as the model sees them: flat rows of many sequences.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv_cache/kv_cache_storage.h"
#include "ops/attention.h"
#include "tensor/op_context.h"
#include "tensor/tensor.h"

namespace quire {

/// One KV group's tables for this step.
struct KvGroupBatch {
  Tensor slots;                                   ///< [1, tokens] int64: where each row's key and value go
  std::vector<ops::AttentionSequence> sequences;  ///< with this group's block tables
};

class LoraAdapter;

/// Rows of one adapter, side by side. Rows outside all segments are the base model's.
struct AdapterSegment {
  int64_t row_begin = 0;
  int64_t row_count = 0;
  const LoraAdapter* adapter = nullptr;
};

struct ForwardBatch {
  OpContext* context = nullptr;
  Tensor token_ids;                  ///< [1, tokens] int32
  Tensor positions;                  ///< [1, tokens] int32
  std::vector<KvGroupBatch> groups;  ///< one per KV group
  const KvCacheStorage* kv_cache = nullptr;
  std::span<const AdapterSegment> adapters;         ///< of the rows that layers work on now: at first all
  std::span<const int32_t> output_rows;             ///< ascending: the rows whose hidden states are asked for
  std::span<const AdapterSegment> output_adapters;  ///< of output_rows
  /// Between pipeline stages, rows of all tokens: what the stage before left, then what this one leaves.
  std::vector<Tensor> intermediate;

  int64_t tokens() const { return token_ids.cols(); }
  /// From here on layers work on output_rows only.
  void narrow_to_output_rows() { adapters = output_adapters; }
};

}  // namespace quire

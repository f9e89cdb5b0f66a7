// Attention of query rows over a paged key/value cache.
//
// Results depend only on a row's query, its position and the cached keys and values before it: keys are read in tiles
// of kTile positions and segments of kSegment positions, both fixed by absolute position; inside a segment the softmax
// runs online over ascending tiles (Milakov & Gimelshein 2018, arXiv:1805.02867), segments are merged in ascending
// order.
#pragma once

#include <cstdint>
#include <span>

#include "base/api.h"
#include "tensor/op_context.h"
#include "tensor/tensor.h"

namespace quire::ops {

/// One attention layer's share of a paged cache. A block holds block_size positions of every layer of its group; this
/// layer's keys begin `key_offset` bytes and its values `value_offset` bytes into each block. Keys of one KV head are
/// stored as panels: for each run of 16 positions, for each of the k_dim features, 16 positions side by side. Values of
/// one KV head are stored [block_size, v_dim].
struct PagedKvLayer {
  static constexpr int64_t kPanelWidth = 16;

  Tensor storage;                 ///< [blocks, block_bytes] uint8
  DType dtype = DType::kFloat32;  ///< kFloat32, kBFloat16 or kFloat16
  int64_t block_size = 0;         ///< positions per block, a multiple of 16
  int64_t kv_heads = 0;
  int64_t k_dim = 0;
  int64_t v_dim = 0;
  size_t key_offset = 0;
  size_t value_offset = 0;
};

/// Rounds k and v to the cache's dtype and writes them. k: [tokens, kv_heads * k_dim], v: [tokens, kv_heads * v_dim]
/// float32 (row strides allowed); slots: [1, tokens] int64 with block * block_size + offset, or -1 for a token that is
/// not stored.
QUIRE_API void write_kv(OpContext& context, const Tensor& k, const Tensor& v, const Tensor& slots,
                        const PagedKvLayer& cache);

/// One sequence's rows in the flat batch.
struct AttentionSequence {
  int64_t query_begin = 0;          ///< first row in q and out
  int64_t query_count = 0;          ///< rows; row i has position seq_len - query_count + i
  int64_t seq_len = 0;              ///< positions in the cache once this step's keys are written
  std::span<const int32_t> blocks;  ///< block of positions [i * block_size, ...); -1 for one that has left the window
};

struct AttentionParams {
  static constexpr int64_t kTile = 64;
  static constexpr int64_t kSegment = 1024;

  int64_t query_heads = 0;  ///< a multiple of cache.kv_heads unless kv_head_of_query is given
  float scale = 1.0f;
  float softcap = 0.0f;  ///< > 0: scores become softcap * tanh(score / softcap)
  int64_t window = 0;    ///< > 0: a query at p sees keys in (p - window, p]; 0: all up to p
  /// The KV head of each query head; empty means query head h reads KV head h / (query_heads / kv_heads).
  /// Non-decreasing.
  std::span<const int32_t> kv_head_of_query;
};

/// out[row, h * v_dim ...] = softmax(scale * q·K) V for each row and query head. q: [rows, query_heads * k_dim], out:
/// [rows, query_heads * v_dim], float32 (row strides allowed).
QUIRE_API void paged_attention(OpContext& context, const AttentionParams& params, const Tensor& q,
                               const PagedKvLayer& cache, std::span<const AttentionSequence> sequences, Tensor& out);

}  // namespace quire::ops

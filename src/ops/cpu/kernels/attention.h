// The kernels of paged attention. Included by the kernels and by the op alike, so only C headers and no external inline
// code.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace quire::ops::cpu {

/// How keys and values are stored; both are widened to float32 before they are multiplied.
enum class CacheStorage : uint8_t { kFloat32, kBFloat16, kFloat16 };

/// Positions side by side in a panel of keys, positions of a tile, and positions of a segment (PagedKvLayer and
/// AttentionParams of ops/attention.h).
constexpr int64_t kPanelPositions = 16;
constexpr int64_t kTilePositions = 64;
constexpr int64_t kSegmentPositions = 1024;
constexpr int64_t kTilePanels = kTilePositions / kPanelPositions;

/// Query rows that go through scores, softmax and values together while a tile's keys and values lie in the cache.
constexpr int64_t kPassRows = 24;

/// The keys and values of one KV head for one sequence.
struct KvHead {
  const unsigned char* keys;    ///< this head's keys in block 0
  const unsigned char* values;  ///< this head's values in block 0
  size_t block_bytes;           ///< from one block to the next
  const int32_t* blocks;        ///< block of positions [i * block_size, ...)
  int64_t block_size;
  int64_t k_dim;
  int64_t v_dim;
  CacheStorage storage;
};

/// Query rows that read one KV head: `tokens` consecutive positions times `heads` query heads, token by token.
struct QueryRows {
  const float* queries;  ///< the first head of the first token
  int64_t token_stride;  ///< floats from one token to the next
  int64_t tokens;
  int64_t heads;
  int64_t first_position;
  float scale;
  float softcap;   ///< 0 for none
  int64_t window;  ///< 0 for none
};

/// An online softmax's state for rows: largest score, sum of exp(score - maximum), and the values weighted with those.
/// A row that has seen no key has maximum kNoScore and sum 0.
struct SoftmaxState {
  float* maximum;  ///< [rows]
  float* sum;      ///< [rows]
  float* values;   ///< [rows, padded_dim(v_dim)]
};
constexpr float kNoScore = -1e30f;

/// Memory of one worker's own.
struct AttentionScratch {
  float* queries;  ///< [rows, k_dim]: scaled, side by side
  float* scores;   ///< [kPassRows, kTilePositions]
  float* keys;     ///< [kTilePanels, k_dim, kPanelPositions]: the tile widened
  float* values;   ///< [kTilePositions, padded_dim(v_dim)]
};

/// A row of values in scratch fills whole vectors of every ISA.
[[maybe_unused]] static inline int64_t padded_dim(int64_t dim) { return (dim + 15) / 16 * 16; }

/// Rounds one token's keys and values of all KV heads into the cache.
struct StoreCall {
  const float* keys;           ///< [kv_heads * k_dim]
  const float* values;         ///< [kv_heads * v_dim]
  unsigned char* key_block;    ///< this layer's keys in the token's block
  unsigned char* value_block;  ///< this layer's values there
  int64_t offset;              ///< the token's position in its block
  int64_t block_size;
  int64_t kv_heads;
  int64_t k_dim;
  int64_t v_dim;
  CacheStorage storage;
};

struct AttentionKernels {
  /// Copies the unit's query rows, scaled, to scratch.queries.
  void (*load_queries)(const QueryRows& rows, int64_t k_dim, float* queries);
  /// Sets `state` to the softmax over the keys in positions [segment * kSegmentPositions, ...) that each row sees.
  void (*attend_segment)(const KvHead& head, const QueryRows& rows, int64_t segment, const AttentionScratch& scratch,
                         const SoftmaxState& state);
  /// Merges the state of the next segment into that of all before it.
  void (*merge_states)(int64_t rows, int64_t v_dim, const SoftmaxState& next, const SoftmaxState& state);
  /// out = values / sum; row r of the state goes to token r / heads, head r % heads.
  void (*write_output)(const QueryRows& rows, int64_t v_dim, const SoftmaxState& state, float* out,
                       int64_t out_token_stride);
  void (*store_token)(const StoreCall& call);
};

}  // namespace quire::ops::cpu

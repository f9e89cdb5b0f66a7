// What an adapter changes of one layer, in the form in which a step uses it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/linear.h"
#include "tensor/tensor.h"

namespace quire {

/// A change of some output columns of a layer: of one piece ("q"), or of all. With y the base layer's output,
///   y = gain * (y + scale * B (A x)) + offset,
/// or, where the adapter has a weight of its own, y = W x + offset.
struct LoraSlice {
  int64_t column = 0;  ///< this rank's output columns [column, column + columns)
  int64_t columns = 0;
  int64_t first_rank = 0;  ///< A is rows [first_rank, first_rank + rank) of the layer's; rank 0: no product
  int64_t rank = 0;
  float scale = 1.0f;
  std::optional<ops::PackedMatrix> b;       ///< [columns, rank]; fewer columns where ranks divide them
  int64_t b_column = 0;                     ///< of the slice, where those of b begin
  std::optional<ops::PackedMatrix> weight;  ///< [columns, in]; of an embedding [vocabulary, hidden]
  Tensor gain;                              ///< [1, columns] or undefined: DoRA
  Tensor offset;                            ///< [1, columns] or undefined
};

/// Rows of the vocabulary that replace those of some tokens.
struct LoraTokens {
  Tensor ids;              ///< [1, n] int32, ascending
  ops::PackedMatrix rows;  ///< [n, hidden]
};

/// What replaces a norm's vectors: [1, size] float32, undefined where the adapter leaves the base's.
struct LoraNorm {
  Tensor weight, bias;
};

/// An adapter's part in one layer.
struct LoraLayer {
  /// What the ranks do between the two products where they divide both matrices (--fully-sharded-loras): each has some
  /// rows of A and they gather x Aᵀ, or each has some columns of A, as of x, and they sum it. Then each does what
  /// columns of B it has.
  enum class Meeting : uint8_t { kNone, kGather, kReduce };
  Meeting meeting = Meeting::kNone;
  int64_t ranks = 0;              ///< of all slices together
  std::vector<int64_t> a_shares;  ///< kGather: rows of A by rank
  int a_share = 0;                ///< of which this rank's is that
  /// The A of all slices, one under the other: [ranks, in]. Of an embedding its transpose [vocabulary, rank], whose
  /// rows are looked up.
  std::optional<ops::PackedMatrix> a;
  std::vector<LoraSlice> slices;  ///< of distinct columns
  std::optional<LoraTokens> tokens;
  std::optional<LoraNorm> norm;

  bool changes_something() const { return !slices.empty() || tokens || norm; }
};

}  // namespace quire

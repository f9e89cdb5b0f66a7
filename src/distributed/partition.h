// How a dimension is divided over the ranks of a group: the arithmetic behind every parallel layer, for any number of
// ranks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/api.h"
#include "base/result.h"

namespace quire {

/// A rank's place in a group.
struct ParallelRank {
  int rank = 0;
  int size = 1;
};

/// Indices [begin, end).
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// The part of [0, total) that falls to `place`: whole units of `multiple` (the last one may be short), as evenly as
/// they go, the larger parts first.
QUIRE_API Range partition(int64_t total, ParallelRank place, int64_t multiple = 1);

/// The unit to divide [0, total) in: `preferred` where each rank then gets a part, else 1.
QUIRE_API int64_t partition_multiple(int64_t total, int ranks, int64_t preferred);

/// The layers of one pipeline stage, as vLLM divides them: where they do not divide, the stages before the last have
/// one more, counted backwards from the last but one, since the last has the head besides. Or as `given`, which has a
/// number of layers for each stage that add up to `layers`.
QUIRE_API Range partition_layers(int64_t layers, ParallelRank stage, std::span<const int64_t> given = {});

/// The heads of one rank: its query heads as evenly as they go, and the KV heads that those read. A KV head that the
/// query heads of several ranks read is held by each of them.
struct HeadPartition {
  Range query_heads;
  Range kv_heads;
  std::vector<int32_t> kv_head_of_query;  ///< local KV head for each local query head
};

/// Refuses counts that do not divide and more ranks than query heads, naming the sizes that fit.
QUIRE_API Result<HeadPartition> partition_heads(int64_t query_heads, int64_t kv_heads, ParallelRank place);

/// The vocabulary rows of one rank. The vocabulary is padded to a multiple of `padding` times the group's size; `rows`
/// of them are local, of which those in `range` exist in the checkpoint.
struct VocabPartition {
  Range range;
  int64_t rows = 0;
};
QUIRE_API VocabPartition partition_vocab(int64_t vocab_size, ParallelRank place, int64_t padding = 64);

}  // namespace quire

#include "distributed/partition.h"

#include <algorithm>
#include <numeric>
#include <string>

namespace quire {

Range partition(int64_t total, ParallelRank place, int64_t multiple) {
  QUIRE_CHECK(total >= 0 && multiple > 0 && place.size > 0 && place.rank >= 0 && place.rank < place.size);
  const int64_t units = (total + multiple - 1) / multiple;
  const int64_t share = units / place.size;
  const int64_t larger = units % place.size;  // the first ranks take one unit more
  const int64_t begin = place.rank * share + std::min<int64_t>(place.rank, larger);
  const int64_t end = begin + share + (place.rank < larger ? 1 : 0);
  return {std::min(begin * multiple, total), std::min(end * multiple, total)};
}

int64_t partition_multiple(int64_t total, int ranks, int64_t preferred) {
  return (total + preferred - 1) / preferred >= ranks ? preferred : 1;
}

Range partition_layers(int64_t layers, ParallelRank stage, std::span<const int64_t> given) {
  QUIRE_CHECK(layers >= stage.size && stage.rank >= 0 && stage.rank < stage.size);
  if (!given.empty()) {
    QUIRE_CHECK(static_cast<int>(given.size()) == stage.size &&
                std::accumulate(given.begin(), given.end(), int64_t{0}) == layers);
    const int64_t begin = std::accumulate(given.begin(), given.begin() + stage.rank, int64_t{0});
    return {begin, begin + given[static_cast<size_t>(stage.rank)]};
  }
  const int64_t share = layers / stage.size;
  const int64_t remaining = layers % stage.size;
  const int64_t first_larger = stage.size - 1 - remaining;  // the stages from here to the last but one
  const auto begin_of = [&](int64_t rank) {
    return rank * share + std::clamp(rank - first_larger, int64_t{0}, remaining);
  };
  return {begin_of(stage.rank), begin_of(stage.rank + 1)};
}

Result<HeadPartition> partition_heads(int64_t query_heads, int64_t kv_heads, ParallelRank place) {
  if (query_heads <= 0 || kv_heads <= 0 || query_heads % kv_heads != 0) {
    return invalid_argument("num_attention_heads (" + std::to_string(query_heads) +
                                ") must be a multiple of num_key_value_heads (" + std::to_string(kv_heads) + ")",
                            "num_attention_heads");
  }
  if (place.size > query_heads) {
    return invalid_argument("a tensor parallel size of " + std::to_string(place.size) + " is more than the model's " +
                                std::to_string(query_heads) + " query heads: sizes 1 to " +
                                std::to_string(query_heads) + " fit",
                            "tensor_parallel_size");
  }
  const int64_t group = query_heads / kv_heads;
  HeadPartition heads;
  heads.query_heads = partition(query_heads, place);
  heads.kv_heads = {heads.query_heads.begin / group, (heads.query_heads.end - 1) / group + 1};
  for (int64_t head = heads.query_heads.begin; head < heads.query_heads.end; ++head) {
    heads.kv_head_of_query.push_back(static_cast<int32_t>(head / group - heads.kv_heads.begin));
  }
  return heads;
}

VocabPartition partition_vocab(int64_t vocab_size, ParallelRank place, int64_t padding) {
  const int64_t unit = padding * place.size;
  const int64_t rows = (vocab_size + unit - 1) / unit * padding;
  const int64_t begin = std::min(rows * place.rank, vocab_size);
  return {{begin, std::min(rows * (place.rank + 1), vocab_size)}, rows};
}

}  // namespace quire

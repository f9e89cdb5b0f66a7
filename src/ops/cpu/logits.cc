// Scans of rows of logits. A row is cut into blocks of fixed size, whose maxima and sums of exponentials are merged in
// ascending order in float64, whoever computed them.
#include <bit>
#include <cmath>
#include <limits>

#include "ops/cpu/backend.h"
#include "ops/cpu/kernels/rows.h"
#include "ops/cpu/parallel.h"

namespace quire::ops::cpu {

namespace {

constexpr int64_t kBlock = 4096;

RowStatistics merge_blocks(const float* logits, int64_t vocab, const LogitsBlock* blocks, int64_t count) {
  float maximum = -std::numeric_limits<float>::infinity();
  int64_t best_block = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (blocks[i].maximum > maximum) {
      maximum = blocks[i].maximum;
      best_block = i;
    }
  }
  RowStatistics statistics;
  statistics.best.value = maximum;
  for (int64_t token = best_block * kBlock; token < vocab; ++token) {
    if (logits[token] == maximum) {
      statistics.best = {static_cast<int32_t>(token), logits[token]};
      break;
    }
  }
  double sum = 0.0;
  for (int64_t i = 0; i < count; ++i) {
    const double scale =
        std::isinf(blocks[i].maximum) ? 1.0 : std::exp(static_cast<double>(blocks[i].maximum) - maximum);
    sum += blocks[i].sum * scale;
  }
  const bool finite = !std::isinf(maximum);
  statistics.log_sum_exp = finite ? static_cast<float>(maximum + std::log(sum)) : maximum + static_cast<float>(sum);
  return statistics;
}

/// A key whose order is that of "comes earlier in a descending list": larger logit first, then lower token. NaN comes
/// after everything, -0 equals 0.
uint64_t sort_key(float value, int64_t token) {
  const uint32_t bits = std::bit_cast<uint32_t>(value == 0.0f ? 0.0f : value);
  const uint32_t ordered = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  const uint32_t rank = std::isnan(value) ? 0 : ordered;
  return (static_cast<uint64_t>(rank) << 32) | (0xffffffffu - static_cast<uint32_t>(token));
}

int32_t token_of(uint64_t key) { return static_cast<int32_t>(0xffffffffu - static_cast<uint32_t>(key)); }

/// Keys of the `count` first tokens, in no order. A heap of the best so far has its worst on top, which new logits
/// must exceed.
std::vector<uint64_t> best_keys_by_heap(const RowKernels& kernels, const float* logits, int64_t vocab, int64_t count) {
  std::vector<uint64_t> heap;
  heap.reserve(static_cast<size_t>(count));
  for (int64_t token = 0; token < count; ++token) heap.push_back(sort_key(logits[token], token));
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  int64_t token = count;
  while (token < vocab) {
    const float worst = logits[token_of(heap.front())];
    if (!std::isnan(worst)) token = kernels.find_larger(logits, token, vocab, worst);
    if (token == vocab) break;
    const uint64_t key = sort_key(logits[token], token);
    if (key > heap.front()) {
      std::pop_heap(heap.begin(), heap.end(), std::greater<>());
      heap.back() = key;
      std::push_heap(heap.begin(), heap.end(), std::greater<>());
    }
    ++token;
  }
  return heap;
}

std::vector<uint64_t> best_keys_by_selection(const float* logits, int64_t vocab, int64_t count) {
  std::vector<uint64_t> keys(static_cast<size_t>(vocab));
  for (int64_t token = 0; token < vocab; ++token) keys[static_cast<size_t>(token)] = sort_key(logits[token], token);
  if (count < vocab) std::nth_element(keys.begin(), keys.begin() + count, keys.end(), std::greater<>());
  keys.resize(static_cast<size_t>(count));
  return keys;
}

}  // namespace

void row_statistics(const KernelTable& table, OpContext& context, const Tensor& logits, std::span<RowStatistics> out) {
  const Workspace::Scope scope(*context.workspace);
  const int64_t vocab = logits.cols();
  const int64_t per_row = (vocab + kBlock - 1) / kBlock;
  const size_t bytes = static_cast<size_t>(logits.rows() * per_row) * sizeof(LogitsBlock);
  auto* const blocks = static_cast<LogitsBlock*>(context.workspace->allocate(bytes));
  constexpr int64_t kElementCost = 4;
  for_rows(context, logits.rows() * per_row, kElementCost * std::min(vocab, kBlock), [&](int64_t index) {
    const int64_t begin = index % per_row * kBlock;
    const float* const row = logits.row<float>(index / per_row);
    blocks[index] = table.rows->logits_block(row + begin, std::min(kBlock, vocab - begin));
  });
  for (int64_t row = 0; row < logits.rows(); ++row) {
    out[static_cast<size_t>(row)] = merge_blocks(logits.row<float>(row), vocab, blocks + row * per_row, per_row);
  }
}

std::vector<TokenValue> top_logits(const KernelTable& table, const Tensor& logits, int64_t row, int64_t count) {
  constexpr int64_t kMostInHeap = 256;
  const float* const values = logits.row<float>(row);
  const int64_t vocab = logits.cols();
  std::vector<uint64_t> keys = count <= kMostInHeap ? best_keys_by_heap(*table.rows, values, vocab, count)
                                                    : best_keys_by_selection(values, vocab, count);
  std::sort(keys.begin(), keys.end(), std::greater<>());
  std::vector<TokenValue> top;
  top.reserve(keys.size());
  for (const uint64_t key : keys) top.push_back({token_of(key), values[token_of(key)]});
  return top;
}

int64_t count_larger(const KernelTable& table, const Tensor& logits, int64_t row, float value) {
  return table.rows->count_larger(logits.row<float>(row), logits.cols(), value);
}

void gather_logits(const Tensor& logits, int64_t row, std::span<const int32_t> tokens, std::span<float> out) {
  const float* const values = logits.row<float>(row);
  for (size_t i = 0; i < tokens.size(); ++i) out[i] = values[tokens[i]];
}

}  // namespace quire::ops::cpu

// Paged attention against a naive float64 reference, and its promise: a row's result is the same whatever surrounds it.
#include "ops/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>

#include "ops/cpu/backend.h"
#include "ops/op_fixture.h"

namespace quire::ops {
namespace {

struct Shape {
  int64_t kv_heads = 2;
  int64_t k_dim = 64;
  int64_t v_dim = 64;
  std::vector<int32_t> kv_head_of_query = {0, 0, 0, 1, 1, 1};
  int64_t window = 0;
  float softcap = 0.0f;
  DType dtype = DType::kBFloat16;

  int64_t query_heads() const { return static_cast<int64_t>(kv_head_of_query.size()); }
  AttentionParams params() const {
    AttentionParams params;
    params.query_heads = query_heads();
    params.scale = 1.0f / std::sqrt(static_cast<float>(k_dim));
    params.softcap = softcap;
    params.window = window;
    params.kv_head_of_query = kv_head_of_query;
    return params;
  }
};

/// A sequence's queries, keys and values for all its positions.
struct Sequence {
  Tensor q;
  Tensor k;
  Tensor v;
  Sequence(const Shape& shape, int64_t positions, std::mt19937& random)
      : q(random_tensor(positions, shape.query_heads() * shape.k_dim, random, 1.5f)),
        k(random_tensor(positions, shape.kv_heads * shape.k_dim, random)),
        v(random_tensor(positions, shape.kv_heads * shape.v_dim, random)) {}
  int64_t positions() const { return q.rows(); }
};

/// A cache full of NaN, whose blocks are handed out in a shuffled order.
class PagedCache {
 public:
  PagedCache(const Shape& shape, int64_t block_size, int64_t blocks, std::mt19937& random) {
    const int64_t element = static_cast<int64_t>(dtype_size(shape.dtype));
    const int64_t key_bytes = shape.kv_heads * block_size * shape.k_dim * element;
    const int64_t value_bytes = shape.kv_heads * block_size * shape.v_dim * element;
    constexpr int64_t kOtherLayer = 192;
    layer_.storage = Tensor::empty(blocks, kOtherLayer + key_bytes + value_bytes, DType::kUInt8);
    std::memset(layer_.storage.raw(), 0xff, static_cast<size_t>(layer_.storage.size()));
    layer_.dtype = shape.dtype;
    layer_.block_size = block_size;
    layer_.kv_heads = shape.kv_heads;
    layer_.k_dim = shape.k_dim;
    layer_.v_dim = shape.v_dim;
    layer_.key_offset = kOtherLayer;
    layer_.value_offset = static_cast<size_t>(kOtherLayer + key_bytes);
    free_.resize(static_cast<size_t>(blocks));
    std::iota(free_.begin(), free_.end(), 0);
    std::shuffle(free_.begin(), free_.end(), random);
  }

  const PagedKvLayer& layer() const { return layer_; }
  int32_t take() {
    QUIRE_CHECK(!free_.empty());
    const int32_t block = free_.back();
    free_.pop_back();
    return block;
  }

 private:
  PagedKvLayer layer_;
  std::vector<int32_t> free_;
};

/// One sequence on its way through the cache.
struct Running {
  const Sequence* sequence = nullptr;
  std::vector<int32_t> blocks;
  int64_t computed = 0;
  Tensor out;
};

int64_t blocks_for(int64_t positions, int64_t block_size) { return (positions + block_size - 1) / block_size; }

/// Writes and attends the next `counts[i]` positions of each sequence in one step. Blocks that have left the window are
/// filled with NaN and named -1.
void step(const cpu::KernelTable& table, OpContext& context, const Shape& shape, PagedCache& cache,
          std::vector<Running>& running, const std::vector<int64_t>& counts) {
  const int64_t rows = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  const PagedKvLayer& layer = cache.layer();
  Tensor q = Tensor::empty(rows, shape.query_heads() * shape.k_dim, DType::kFloat32);
  Tensor k = Tensor::empty(rows, shape.kv_heads * shape.k_dim, DType::kFloat32);
  Tensor v = Tensor::empty(rows, shape.kv_heads * shape.v_dim, DType::kFloat32);
  Tensor slots = Tensor::empty(1, rows, DType::kInt64);
  std::vector<AttentionSequence> sequences;
  int64_t row = 0;
  for (size_t i = 0; i < running.size(); ++i) {
    Running& one = running[i];
    sequences.push_back({row, counts[i], one.computed + counts[i], {}});
    const int64_t first_seen =
        shape.window > 0 ? std::max<int64_t>(0, one.computed - shape.window + 1) / layer.block_size : 0;
    for (int64_t block = 0; block < std::min<int64_t>(first_seen, static_cast<int64_t>(one.blocks.size())); ++block) {
      if (one.blocks[block] < 0) continue;
      std::memset(layer.storage.row<uint8_t>(one.blocks[block]), 0xff, static_cast<size_t>(layer.storage.cols()));
      one.blocks[block] = -1;
    }
    for (int64_t j = 0; j < counts[i]; ++j, ++row, ++one.computed) {
      if (static_cast<int64_t>(one.blocks.size()) * layer.block_size <= one.computed)
        one.blocks.push_back(cache.take());
      slots.data<int64_t>()[row] = one.blocks.back() * layer.block_size + one.computed % layer.block_size;
      std::copy_n(one.sequence->q.row<float>(one.computed), q.cols(), q.row<float>(row));
      std::copy_n(one.sequence->k.row<float>(one.computed), k.cols(), k.row<float>(row));
      std::copy_n(one.sequence->v.row<float>(one.computed), v.cols(), v.row<float>(row));
    }
    sequences.back().blocks = one.blocks;
  }
  Tensor out = Tensor::empty(rows, shape.query_heads() * shape.v_dim, DType::kFloat32);
  cpu::write_kv(table, context, k, v, slots, layer);
  cpu::paged_attention(table, context, shape.params(), q, layer, sequences, out);
  for (size_t i = 0; i < running.size(); ++i) {
    for (int64_t j = 0; j < counts[i]; ++j) {
      std::copy_n(out.row<float>(sequences[i].query_begin + j), out.cols(),
                  running[i].out.row<float>(running[i].computed - counts[i] + j));
    }
  }
}

/// Runs all sequences together, each in chunks of `chunk` positions.
std::vector<Tensor> run(const cpu::KernelTable& table, OpContext& context, const Shape& shape,
                        const std::vector<const Sequence*>& sequences, int64_t chunk, int64_t block_size,
                        int seed = 1) {
  std::mt19937 random(static_cast<unsigned>(seed));
  int64_t blocks = 3;
  std::vector<Running> running;
  for (const Sequence* sequence : sequences) {
    blocks += blocks_for(sequence->positions(), block_size);
    running.push_back(
        {sequence, {}, 0, Tensor::empty(sequence->positions(), shape.query_heads() * shape.v_dim, DType::kFloat32)});
  }
  PagedCache cache(shape, block_size, blocks, random);
  while (true) {
    std::vector<int64_t> counts;
    for (const Running& one : running) counts.push_back(std::min(chunk, one.sequence->positions() - one.computed));
    if (std::all_of(counts.begin(), counts.end(), [](int64_t count) { return count == 0; })) break;
    step(table, context, shape, cache, running, counts);
  }
  std::vector<Tensor> outs;
  for (const Running& one : running) outs.push_back(one.out);
  return outs;
}

float rounded(float value, DType dtype) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  if (dtype == DType::kBFloat16) {
    bits = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
  } else if (dtype == DType::kFloat16 && std::fabs(value) >= 6.103515625e-5f) {  // normal: 10 bits are kept
    bits = (bits + 0xfffu + ((bits >> 13) & 1u)) & 0xffffe000u;
  } else if (dtype == DType::kFloat16) {
    value = std::nearbyint(value * 16777216.0f) / 16777216.0f;
    std::memcpy(&bits, &value, sizeof(bits));
  }
  std::memcpy(&value, &bits, sizeof(bits));
  return value;
}

/// One row and head by the book, in float64 over the rounded keys and values.
std::vector<double> reference_row(const Shape& shape, const Sequence& sequence, int64_t position, int64_t head) {
  const int64_t kv_head = shape.kv_head_of_query[static_cast<size_t>(head)];
  const int64_t first = shape.window > 0 ? std::max<int64_t>(0, position - shape.window + 1) : 0;
  std::vector<double> scores;
  for (int64_t key = first; key <= position; ++key) {
    double score = 0.0;
    for (int64_t i = 0; i < shape.k_dim; ++i) {
      score += static_cast<double>(sequence.q.row<float>(position)[head * shape.k_dim + i]) *
               rounded(sequence.k.row<float>(key)[kv_head * shape.k_dim + i], shape.dtype);
    }
    score /= std::sqrt(static_cast<double>(shape.k_dim));
    if (shape.softcap > 0.0f) score = shape.softcap * std::tanh(score / shape.softcap);
    scores.push_back(score);
  }
  const double maximum = *std::max_element(scores.begin(), scores.end());
  double sum = 0.0;
  for (double& score : scores) sum += score = std::exp(score - maximum);
  std::vector<double> out(static_cast<size_t>(shape.v_dim));
  for (int64_t key = first; key <= position; ++key) {
    for (int64_t i = 0; i < shape.v_dim; ++i) {
      out[static_cast<size_t>(i)] += scores[static_cast<size_t>(key - first)] / sum *
                                     rounded(sequence.v.row<float>(key)[kv_head * shape.v_dim + i], shape.dtype);
    }
  }
  return out;
}

/// The largest error over some rows: the first and last, those around tiles and segments, and every 37th.
double largest_error(const Shape& shape, const Sequence& sequence, const Tensor& out) {
  double error = 0.0;
  for (int64_t position = 0; position < sequence.positions(); ++position) {
    const bool edge = position % 1024 == 0 || position % 1024 == 1023 || position + 1 == sequence.positions();
    if (!edge && position % 37 != 0) continue;
    for (int64_t head = 0; head < shape.query_heads(); ++head) {
      const std::vector<double> expected = reference_row(shape, sequence, position, head);
      for (int64_t i = 0; i < shape.v_dim; ++i) {
        const double difference =
            std::fabs(out.row<float>(position)[head * shape.v_dim + i] - expected[static_cast<size_t>(i)]);
        error = difference <= error ? error : difference;  // a NaN becomes the error
        if (std::isnan(difference)) return difference;
      }
    }
  }
  return error;
}

std::vector<Shape> shapes() {
  return {
      Shape{},
      Shape{.kv_heads = 1, .kv_head_of_query = {0}, .dtype = DType::kFloat32},
      Shape{.kv_heads = 1, .kv_head_of_query = {0, 0}, .dtype = DType::kFloat16},
      Shape{.kv_heads = 3, .kv_head_of_query = {0, 1, 1, 1, 1, 2, 2}, .window = 100},
      Shape{.k_dim = 24, .v_dim = 20, .kv_head_of_query = {0, 1}, .window = 5, .softcap = 2.0f},
      Shape{.k_dim = 13, .v_dim = 7, .kv_head_of_query = {0, 0, 1, 1}, .softcap = 30.0f, .dtype = DType::kFloat16},
      Shape{.kv_heads = 1, .k_dim = 80, .v_dim = 128, .kv_head_of_query = std::vector<int32_t>(30, 0)},
      Shape{.k_dim = 33, .v_dim = 65, .kv_head_of_query = {0, 0, 0, 0, 0, 1}, .window = 64, .dtype = DType::kFloat32},
  };
}

/// Largest error that a table may make: float32's, or that of queries and probabilities rounded to bfloat16 (2^-9 each).
double allowed_error(const cpu::KernelTable& table, const Shape& shape) {
  return table.bf16_pair_attention != nullptr && shape.dtype == DType::kBFloat16 ? 1e-2 : 4e-6;
}

TEST(PagedAttention, AgreesWithFloat64OnEveryIsa) {
  std::mt19937 random(3);
  int index = 0;
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE("shape " + std::to_string(index++));
    const Sequence sequence(shape, 210, random);
    for (const cpu::KernelTable* table : available_tables()) {
      TestContext context;
      for (const int64_t chunk : {1, 210}) {
        const Tensor out = run(*table, context.get(), shape, {&sequence}, chunk, 16)[0];
        EXPECT_LT(largest_error(shape, sequence, out), allowed_error(*table, shape)) << table->name << ", chunk " << chunk;
      }
    }
  }
}

TEST(PagedAttention, AgreesWithFloat64AcrossSegments) {
  std::mt19937 random(4);
  for (const int64_t window : {0, 1100}) {
    const Shape shape{.kv_heads = 1, .kv_head_of_query = {0, 0}, .window = window};
    const Sequence sequence(shape, 2300, random);
    for (const cpu::KernelTable* table : available_tables()) {
      TestContext context(2);
      const Tensor out = run(*table, context.get(), shape, {&sequence}, 700, 32)[0];
      EXPECT_LT(largest_error(shape, sequence, out), allowed_error(*table, shape)) << table->name << ", window " << window;
    }
  }
}

TEST(PagedAttention, IsTheSameForEveryChunkSizeBlockSizeAndThreadCount) {
  std::mt19937 random(5);
  int index = 0;
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE("shape " + std::to_string(index++));
    const Sequence sequence(shape, 180, random);
    for (const cpu::KernelTable* table : available_tables()) {
      TestContext one;
      const Tensor expected = run(*table, one.get(), shape, {&sequence}, 180, 16)[0];
      TestContext two(2);
      int seed = 2;
      for (const int64_t chunk : {1, 7, 16, 64, 180}) {
        for (const int64_t block_size : {16, 32, 64, 128}) {
          const Tensor out = run(*table, two.get(), shape, {&sequence}, chunk, block_size, seed++)[0];
          ASSERT_TRUE(same_values(out, expected)) << table->name << ", chunk " << chunk << ", block " << block_size;
        }
      }
      TestContext four(4);
      ASSERT_TRUE(same_values(run(*table, four.get(), shape, {&sequence}, 180, 16)[0], expected)) << table->name;
    }
  }
}

TEST(PagedAttention, LongContextsAreTheSameSplitOrNot) {
  std::mt19937 random(6);
  for (const int64_t window : {0, 1300}) {
    const Shape shape{.window = window};
    const Sequence sequence(shape, 1700, random);
    for (const cpu::KernelTable* table : available_tables()) {
      TestContext one;
      const Tensor expected = run(*table, one.get(), shape, {&sequence}, 1700, 16)[0];
      for (const int threads : {1, 2, 4}) {
        TestContext context(threads);
        const Tensor out = run(*table, context.get(), shape, {&sequence}, 170, 64)[0];
        ASSERT_TRUE(same_values(out, expected)) << table->name << ", threads " << threads;
      }
    }
  }
}

TEST(PagedAttention, IsTheSameWhateverElseIsInTheBatch) {
  std::mt19937 random(7);
  const Shape shape{.kv_heads = 3, .kv_head_of_query = {0, 0, 0, 1, 1, 2}};
  std::vector<Sequence> sequences;
  for (const int64_t positions : {90, 1, 1300, 33, 64, 65, 200, 17}) sequences.emplace_back(shape, positions, random);
  std::vector<const Sequence*> together;
  for (const Sequence& sequence : sequences) together.push_back(&sequence);
  for (const cpu::KernelTable* table : available_tables()) {
    TestContext one;
    TestContext two(2);
    const std::vector<Tensor> outs = run(*table, two.get(), shape, together, 50, 16);
    for (size_t i = 0; i < sequences.size(); ++i) {
      const Tensor alone = run(*table, one.get(), shape, {&sequences[i]}, 1300, 16)[0];
      EXPECT_TRUE(same_values(outs[i], alone)) << table->name << ", sequence " << i;
    }
  }
}

TEST(PagedAttention, LaterPositionsNeverReachARowEvenWhenInfinite) {
  std::mt19937 random(8);
  const Shape shape;
  const Sequence clean(shape, 100, random);
  Sequence poisoned = clean;
  poisoned.k = copy_of(clean.k);
  poisoned.v = copy_of(clean.v);
  poisoned.k.row<float>(70)[3] = std::numeric_limits<float>::quiet_NaN();
  poisoned.v.row<float>(70)[5] = std::numeric_limits<float>::infinity();
  for (const cpu::KernelTable* table : available_tables()) {
    TestContext context;
    const Tensor expected = run(*table, context.get(), shape, {&clean}, 100, 16)[0];
    const Tensor out = run(*table, context.get(), shape, {&poisoned}, 100, 16)[0];
    EXPECT_TRUE(same_values(out.slice_rows(0, 70), expected.slice_rows(0, 70))) << table->name;
    EXPECT_TRUE(std::isnan(out.row<float>(70)[0])) << "a NaN key must show";
    EXPECT_TRUE(same_values(out.slice_cols(3 * 64, 3 * 64), expected.slice_cols(3 * 64, 3 * 64)))
        << "the other KV head is not touched";
  }
}

TEST(PagedAttention, AllocatesNothingOnceTheWorkspaceHasGrown) {
  std::mt19937 random(9);
  const Shape shape;
  const Sequence sequence(shape, 300, random);
  TestContext context(2);
  run(cpu::kernels(), context.get(), shape, {&sequence}, 64, 16);
  const size_t capacity = context.workspace().capacity();
  run(cpu::kernels(), context.get(), shape, {&sequence}, 64, 16);
  EXPECT_EQ(context.workspace().capacity(), capacity);
}

TEST(PagedAttention, RefusesBlocksThatAQueryWouldReadButThatAreGone) {
  std::mt19937 random(10);
  const Shape shape;
  PagedCache cache(shape, 16, 4, random);
  TestContext context;
  const Tensor q = random_tensor(1, shape.query_heads() * shape.k_dim, random);
  Tensor out = Tensor::empty(1, shape.query_heads() * shape.v_dim, DType::kFloat32);
  for (const std::vector<int32_t>& blocks : {std::vector<int32_t>{-1, 1}, {0, 4}, {0}}) {
    const std::vector<AttentionSequence> sequences = {{0, 1, 20, blocks}};
    EXPECT_THROW(paged_attention(context.get(), shape.params(), q, cache.layer(), sequences, out), CheckFailure);
  }
}

TEST(WriteKv, SkipsTokensWithoutASlotAndRefusesSlotsBeyondTheCache) {
  std::mt19937 random(11);
  const Shape shape{.dtype = DType::kFloat32};
  PagedCache cache(shape, 16, 2, random);
  const PagedKvLayer& layer = cache.layer();
  const Tensor k = random_tensor(2, shape.kv_heads * shape.k_dim, random, 1.0f, 3);
  const Tensor v = random_tensor(2, shape.kv_heads * shape.v_dim, random, 1.0f, 5);
  Tensor slots = Tensor::empty(1, 2, DType::kInt64);
  slots.data<int64_t>()[0] = -1;
  slots.data<int64_t>()[1] = 16 + 3;
  TestContext context;
  write_kv(context.get(), k, v, slots, layer);
  const uint8_t* const untouched = layer.storage.row<uint8_t>(0);
  EXPECT_TRUE(std::all_of(untouched, untouched + layer.storage.cols(), [](uint8_t byte) { return byte == 0xff; }));
  const auto* const keys = reinterpret_cast<const float*>(layer.storage.row<uint8_t>(1) + layer.key_offset);
  const auto* const values = reinterpret_cast<const float*>(layer.storage.row<uint8_t>(1) + layer.value_offset);
  for (int64_t i = 0; i < shape.k_dim; ++i) {
    EXPECT_EQ(keys[shape.k_dim * 16 + i * 16 + 3], k.row<float>(1)[shape.k_dim + i]);
    EXPECT_EQ(values[(16 + 3) * shape.v_dim + i], v.row<float>(1)[shape.v_dim + i]);
  }
  EXPECT_TRUE(std::isnan(keys[2]) && std::isnan(keys[4])) << "neighbouring positions are not touched";
  slots.data<int64_t>()[0] = 32;
  EXPECT_THROW(write_kv(context.get(), k, v, slots, layer), CheckFailure);
}

}  // namespace
}  // namespace quire::ops

// Speed of paged attention: prefill in GFLOP/s (multiplications that causality leaves), decode in GB/s of keys and
// values read. Usage: ops_attention_bench [threads]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string_view>
#include <vector>

#include "kv_cache/kv_cache_storage.h"
#include "ops/attention.h"
#include "ops/cpu/kernel_table.h"

namespace quire {
namespace {

struct Shape {
  const char* name;
  int64_t query_heads;
  int64_t kv_heads;
  int64_t dim;
};

struct Case {
  int64_t sequences;
  int64_t context;  ///< positions once the queries' keys are stored
  int64_t queries;  ///< of each sequence
};

constexpr Shape kShapes[] = {{"SmolLM2-135M", 9, 3, 64}, {"1B", 32, 8, 64}, {"8B", 32, 8, 128}};
constexpr Case kCases[] = {{1, 512, 512}, {1, 2048, 2048}, {1, 8192, 512}, {1, 256, 1}, {1, 2048, 1},
                           {1, 16384, 1}, {16, 1024, 1},   {64, 512, 1},   {4, 2048, 4}};

Tensor random_rows(int64_t rows, int64_t cols) {
  Tensor tensor = Tensor::empty(rows, cols, DType::kFloat32);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < tensor.size(); ++i) tensor.data<float>()[i] = normal(random);
  return tensor;
}

/// The cache of enough layers that decode reads memory and not what the last layer left in the caches.
class Bench {
 public:
  Bench(const Shape& shape, const Case& load, OpContext& context) : shape_(shape), case_(load), context_(context) {
    blocks_each_ = (load.context + kBlockSize - 1) / kBlockSize;
    const KvCacheSpec spec{KvCacheKind::kFullAttention, shape.kv_heads, shape.dim, shape.dim, 0};
    const int64_t layer_bytes = load.sequences * load.context * shape.kv_heads * shape.dim * 4;
    layers_ = static_cast<int>(std::clamp<int64_t>((int64_t{256} << 20) / layer_bytes, 1, 32));
    const auto groups = group_layers(std::vector<KvCacheSpec>(static_cast<size_t>(layers_), spec));
    storage_ = std::make_unique<KvCacheStorage>(groups, std::vector<int64_t>{load.sequences * blocks_each_}, kBlockSize,
                                                DType::kBFloat16);
    blocks_.resize(static_cast<size_t>(load.sequences * blocks_each_));
    std::iota(blocks_.begin(), blocks_.end(), 0);
    std::shuffle(blocks_.begin(), blocks_.end(), std::mt19937(2));
    fill();
    q_ = random_rows(load.sequences * load.queries, shape.query_heads * shape.dim);
    out_ = Tensor::empty(q_.rows(), q_.cols(), DType::kFloat32);
    for (int64_t i = 0; i < load.sequences; ++i) {
      const auto first = static_cast<size_t>(i * blocks_each_);
      const std::span<const int32_t> blocks(blocks_.data() + first, static_cast<size_t>(blocks_each_));
      sequences_.push_back({i * load.queries, load.queries, load.context, blocks});
    }
  }

  /// Seconds of one layer: the median of several rounds over all layers.
  double measure() {
    std::vector<double> seconds;
    const auto start = std::chrono::steady_clock::now();
    do {
      const auto before = std::chrono::steady_clock::now();
      for (int layer = 0; layer < layers_; ++layer) attend(layer);
      seconds.push_back(since(before) / layers_);
    } while (since(start) < 0.3 || seconds.size() < 3);
    std::nth_element(seconds.begin(), seconds.begin() + static_cast<int64_t>(seconds.size() / 2), seconds.end());
    return seconds[seconds.size() / 2];
  }

  double flops() const {
    double keys = 0;
    for (int64_t i = 0; i < case_.queries; ++i) keys += static_cast<double>(case_.context - i);
    return 4.0 * keys * static_cast<double>(case_.sequences * shape_.query_heads * shape_.dim);
  }
  double bytes() const {
    return 4.0 * static_cast<double>(case_.sequences * case_.context * shape_.kv_heads * shape_.dim);
  }

 private:
  static constexpr int64_t kBlockSize = 16;

  static double since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  void fill() {
    const auto tokens = static_cast<int64_t>(blocks_.size()) * kBlockSize;
    const Tensor kv = random_rows(tokens, shape_.kv_heads * shape_.dim);
    Tensor slots = Tensor::empty(1, tokens, DType::kInt64);
    std::iota(slots.data<int64_t>(), slots.data<int64_t>() + tokens, 0);
    for (int layer = 0; layer < layers_; ++layer) ops::write_kv(context_, kv, kv, slots, storage_->layer(layer));
  }

  void attend(int layer) {
    ops::AttentionParams params;
    params.query_heads = shape_.query_heads;
    params.scale = 0.125f;
    ops::paged_attention(context_, params, q_, storage_->layer(layer), sequences_, out_);
  }

  const Shape& shape_;
  const Case& case_;
  OpContext& context_;
  int64_t blocks_each_ = 0;
  int layers_ = 1;
  std::unique_ptr<KvCacheStorage> storage_;
  std::vector<int32_t> blocks_;
  std::vector<ops::AttentionSequence> sequences_;
  Tensor q_;
  Tensor out_;
};

void run(int threads, std::string_view only) {
  ThreadPoolOptions options;
  options.threads = threads;
  ThreadPool pool(options);
  Workspace workspace;
  OpContext context{{}, &pool, &workspace};
  fmt::print("{}, {} threads, bfloat16 cache, block size 16\n", ops::cpu::kernels().name, pool.size());
  fmt::print("{:<14}{:>10}{:>9}{:>9}{:>11}{:>10}{:>8}\n", "shape", "sequences", "context", "queries", "us/layer",
             "GFLOP/s", "GB/s");
  for (const Shape& shape : kShapes) {
    if (!only.empty() && only != shape.name) continue;
    for (const Case& load : kCases) {
      Bench bench(shape, load, context);
      const double seconds = bench.measure();
      fmt::print("{:<14}{:>10}{:>9}{:>9}{:>11.1f}{:>10.1f}{:>8.1f}\n", shape.name, load.sequences, load.context,
                 load.queries, seconds * 1e6, bench.flops() / seconds * 1e-9, bench.bytes() / seconds * 1e-9);
    }
  }
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  quire::run(argc > 1 ? std::atoi(argv[1]) : 0, argc > 2 ? argv[2] : "");
  return 0;
}

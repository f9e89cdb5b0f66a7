// How near linear() comes to the machine's limits: GFLOP/s against the multiply peak and GB/s of weights against
// reading, both measured beside it. Usage: ops_linear_bench [threads] [float32|bfloat16|float16] [shape name]
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "ops/cpu/kernel_table.h"
#include "ops/cpu/machine_kernels.h"
#include "ops/linear.h"

namespace quire {
namespace {

struct Shape {
  const char* name;
  int64_t out_features;
  int64_t in_features;
};
constexpr Shape kShapes[] = {{"135m.qkv", 960, 576},   {"135m.o", 576, 576},    {"135m.gate_up", 3072, 576},
                             {"135m.down", 576, 1536}, {"1b.qkv", 3072, 2048},  {"1b.gate_up", 16384, 2048},
                             {"1b.down", 2048, 8192},  {"1b.head", 49152, 2048}};
constexpr int64_t kRows[] = {1, 2, 4, 6, 8, 12, 16, 32, 64, 512, 2048};
constexpr size_t kFootprint = size_t{256} << 20;  // weights in turn, so that none is left in a cache

// With one thread, its CPU time: so that a busy machine disturbs less.
bool use_cpu_time = false;

double now() {
  timespec time;
  clock_gettime(use_cpu_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double seconds_of(const auto& function) {
  const double begin = now();
  function();
  return now() - begin;
}

/// The best of several runs: what the machine gives when nothing else runs.
double best_seconds(int runs, const auto& function) {
  double best = 1e9;
  for (int i = 0; i < runs; ++i) best = std::min(best, seconds_of(function));
  return best;
}

struct Limits {
  double gflops;
  double gigabytes;
};

Limits measure_limits(ThreadPool& pool, HugePageArena& arena) {
  const ops::cpu::MachineKernels kernels = ops::cpu::machine_kernels();
  constexpr int64_t kIterations = 1 << 20;
  constexpr int64_t kPiece = 1 << 20;
  auto* const data = static_cast<std::byte*>(arena.allocate(kFootprint));
  std::memset(data, 1, kFootprint);
  volatile uint64_t sink = 0;
  const double multiply = best_seconds(
      10, [&] { pool.parallel_for(pool.size(), [&](int64_t, int) { kernels.float32.run(kIterations); }); });
  const double read = best_seconds(10, [&] {
    pool.parallel_for(static_cast<int64_t>(kFootprint) / kPiece,
                      [&](int64_t i, int) { sink = kernels.read(data + i * kPiece, kPiece); });
  });
  return {kernels.float32.operations * static_cast<double>(kIterations) * pool.size() / multiply / 1e9,
          static_cast<double>(kFootprint) / read / 1e9};
}

void measure(OpContext& context, const Shape& shape, DType dtype, const Limits& limits) {
  HugePageArena arena;
  const size_t bytes = ops::PackedMatrix::bytes(shape.out_features, shape.in_features, dtype);
  std::vector<ops::PackedMatrix> matrices;
  const Tensor source = Tensor::empty(shape.out_features, shape.in_features, dtype);
  std::memset(source.raw(), 0, bytes);
  const MatrixView view{source.raw(), dtype, source.rows(), source.cols(), source.cols()};
  double pack = 1e9;
  for (size_t i = 0; i < std::max<size_t>(kFootprint / bytes, 1); ++i) {
    matrices.push_back(ops::make_packed_matrix(arena, shape.out_features, shape.in_features, dtype));
    std::memset(matrices.back().panels.raw(), 0, bytes);
    pack = std::min(pack, seconds_of([&] { ops::pack_rows(context, view, 0, 0, matrices.back()); }));
  }
  fmt::print("{} [{} x {}] {}, packed at {:.1f} GB/s\n", shape.name, shape.out_features, shape.in_features,
             dtype_name(dtype), static_cast<double>(bytes) / pack / 1e9);
  for (const int64_t rows : kRows) {
    Tensor x = Tensor::empty(rows, shape.in_features, DType::kFloat32);
    Tensor out = Tensor::empty(rows, shape.out_features, DType::kFloat32);
    std::fill_n(x.data<float>(), x.size(), 1.0f);
    const double operations = 2.0 * static_cast<double>(rows * shape.out_features * shape.in_features);
    const int turns = static_cast<int>(std::clamp(2e9 / operations, 1.0, static_cast<double>(matrices.size())));
    const int runs = static_cast<int>(std::clamp(3e10 / operations / turns, 3.0, 15.0));
    const double seconds = best_seconds(runs,
                                        [&] {
                                          for (int i = 0; i < turns; ++i)
                                            ops::linear(context, x, matrices[static_cast<size_t>(i)], {}, out);
                                        }) /
                           turns;
    const double gflops = operations / seconds / 1e9;
    const double gigabytes = static_cast<double>(bytes) / seconds / 1e9;
    fmt::print("  rows {:5}: {:9.1f} us  {:6.1f} GFLOP/s ({:3.0f}%)  {:5.1f} GB/s ({:3.0f}%)\n", rows, seconds * 1e6,
               gflops, 100 * gflops / limits.gflops, gigabytes, 100 * gigabytes / limits.gigabytes);
  }
}

int run(int argc, char** argv) {
  ThreadPoolOptions options;
  if (argc > 1) options.threads = std::atoi(argv[1]);
  const DType dtype = argc > 2 ? parse_float_dtype(argv[2]).value_or(DType::kBFloat16) : DType::kBFloat16;
  ThreadPool pool(options);
  use_cpu_time = pool.size() == 1;
  Workspace workspace;
  OpContext context{{}, &pool, &workspace};
  HugePageArena arena;
  const Limits limits = measure_limits(pool, arena);
  const double fork = best_seconds(20, [&] {
    for (int i = 0; i < 100; ++i) pool.parallel_for(pool.size(), [](int64_t, int) {});
  });
  fmt::print("{}, {} threads: {:.0f} GFLOP/s, {:.1f} GB/s read; an empty loop {:.2f} us\n", ops::cpu::kernels().name,
             pool.size(), limits.gflops, limits.gigabytes, fork * 1e4);
  for (const Shape& shape : kShapes) {
    if (argc <= 3 || std::string_view(shape.name).starts_with(argv[3])) measure(context, shape, dtype, limits);
  }
  return 0;
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) { return quire::run(argc, argv); }

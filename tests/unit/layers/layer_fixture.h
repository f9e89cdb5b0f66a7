// What layer tests need: a context for any rank and a checkpoint in memory.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "distributed/rank_threads.h"
#include "layers/forward_batch.h"
#include "layers/layer_context.h"

namespace quire::testing {

/// Tensors of float32 values by name.
class MemorySource : public WeightSource {
 public:
  void add(const std::string& name, std::vector<int64_t> shape, std::vector<float> values) {
    infos_.push_back({name, std::move(shape), "F32", values.size() * sizeof(float)});
    values_[name] = std::move(values);
  }
  /// Adds a tensor of random values and returns them.
  const std::vector<float>& add_random(const std::string& name, const std::vector<int64_t>& shape) {
    size_t count = 1;
    for (const int64_t size : shape) count *= static_cast<size_t>(size);
    std::vector<float> values(count);
    std::normal_distribution<float> normal;
    for (float& value : values) value = normal(random_);
    add(name, shape, std::move(values));
    return values_[name];
  }

  std::span<const WeightInfo> tensors() const override { return infos_; }
  const WeightInfo* find(std::string_view name) const override {
    for (const WeightInfo& info : infos_) {
      if (info.name == name) return &info;
    }
    return nullptr;
  }
  Result<MatrixView> read_rows(const WeightInfo& weight, int64_t begin, int64_t count,
                               std::vector<float>&) const override {
    const std::vector<float>& values = values_.at(weight.name);
    return MatrixView{values.data() + begin * weight.cols(), DType::kFloat32, count, weight.cols(), weight.cols()};
  }
  void release(const WeightInfo&) const override {}
  const std::string& description() const override { return description_; }

 private:
  std::vector<WeightInfo> infos_;
  std::map<std::string, std::vector<float>> values_;
  std::string description_ = "memory";
  std::mt19937 random_{11};
};

/// Everything that layers of one rank are built with.
struct RankContext {
  explicit RankContext(ParallelRank place)
      : layer{op, arena, parameters, adaptable, *method, DType::kFloat32, place, 64} {
    op.pool = &pool;
    op.workspace = &workspace;
    batch.context = &op;
  }

  ThreadPool pool{{2, false}};
  Workspace workspace;
  OpContext op;
  HugePageArena arena;
  ParameterTable parameters;
  AdaptableLayers adaptable;
  std::unique_ptr<LinearMethod> method = make_unquantized_linear_method(DType::kFloat32);
  LayerContext layer;
  ForwardBatch batch;
};

/// Runs fn on a rank of each place of a tensor parallel group, as threads that can reach each other.
inline void on_ranks(int ranks, const std::function<void(RankContext&)>& fn) {
  const std::shared_ptr<SharedSegment> segment = make_segment(small_segment(ranks));
  on_threads(ranks, [&](int rank) {
    ParallelState state;
    ASSERT_TRUE(state.init_distributed_environment(std::make_unique<ShmTransport>(segment, rank)).ok());
    ASSERT_TRUE(state.initialize_model_parallel(ranks).ok());
    state.tensor_parallel().set_timeout(std::chrono::seconds(60));
    const CurrentParallelState entered(state);
    RankContext context({rank, ranks});
    fn(context);
    EXPECT_FALSE(context.op.failure) << context.op.failure->message;
  });
}

inline std::vector<float> values_of(const Tensor& x) {
  std::vector<float> values;
  for (int64_t row = 0; row < x.rows(); ++row) {
    values.insert(values.end(), x.row<float>(row), x.row<float>(row) + x.cols());
  }
  return values;
}

inline Tensor random_rows(int64_t rows, int64_t cols, unsigned seed) {
  Tensor x = Tensor::empty(rows, cols, DType::kFloat32);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < rows * cols; ++i) x.data<float>()[i] = normal(random);
  return x;
}

}  // namespace quire::testing

// What layer tests need: a context for any rank and a checkpoint in memory.
#pragma once

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

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

inline Tensor random_rows(int64_t rows, int64_t cols, unsigned seed) {
  Tensor x = Tensor::empty(rows, cols, DType::kFloat32);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < rows * cols; ++i) x.data<float>()[i] = normal(random);
  return x;
}

}  // namespace quire::testing

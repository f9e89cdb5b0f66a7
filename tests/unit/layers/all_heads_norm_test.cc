// A norm over all heads, which the ranks have some of each: every number of them gives what one gives.
#include "layers/all_heads_norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "layers/layer_fixture.h"

namespace quire::testing {
namespace {

using Of = AllHeadsRMSNorm::Of;

constexpr int64_t kHeadDim = 6;

struct Shape {
  int64_t query_heads;
  int64_t kv_heads;
};

TEST(AllHeadsRMSNorm, EveryNumberOfRanksGivesWhatOneGives) {
  for (const Shape shape : {Shape{9, 3}, {8, 1}, {8, 2}, {6, 6}}) {
    for (const Of of : {Of::kQueries, Of::kKeys}) {
      const int64_t size = (of == Of::kQueries ? shape.query_heads : shape.kv_heads) * kHeadDim;
      const Tensor x = random_rows(5, size, 3);
      MemorySource source;
      const std::vector<float> weight = source.add_random("q_norm.weight", {size});
      for (int ranks = 1; ranks <= 4; ++ranks) {
        SCOPED_TRACE(std::to_string(shape.kv_heads) + " KV heads over " + std::to_string(ranks) + " ranks");
        on_ranks(ranks, [&](RankContext& rank) {
          const AllHeadsRMSNorm norm(rank.layer, "q_norm", of, shape.query_heads, shape.kv_heads, kHeadDim, 1e-5);
          ASSERT_TRUE(rank.parameters.load(source, {}).ok());
          const HeadPartition heads =
              partition_heads(shape.query_heads, shape.kv_heads, rank.layer.tensor_parallel).value();
          const Range own = of == Of::kQueries ? heads.query_heads : heads.kv_heads;
          Tensor normed = Tensor::empty(x.rows(), own.size() * kHeadDim, DType::kFloat32);
          for (int64_t row = 0; row < x.rows(); ++row) {
            std::copy_n(x.row<float>(row) + own.begin * kHeadDim, normed.cols(), normed.row<float>(row));
          }
          norm.forward(rank.batch, normed);
          for (int64_t row = 0; row < x.rows(); ++row) {
            double mean = 0.0;
            for (int64_t i = 0; i < size; ++i) mean += std::pow(x.row<float>(row)[i], 2) / static_cast<double>(size);
            for (int64_t i = 0; i < normed.cols(); ++i) {
              const int64_t at = own.begin * kHeadDim + i;
              const double expected =
                  x.row<float>(row)[at] / std::sqrt(mean + 1e-5) * double{weight[static_cast<size_t>(at)]};
              EXPECT_NEAR(normed.row<float>(row)[i], expected, 1e-5);
            }
          }
        });
      }
    }
  }
}

}  // namespace
}  // namespace quire::testing

// The embedding and the head, their vocabulary divided over ranks of any number, against one rank that holds all.
#include "layers/vocab_parallel_embedding.h"

#include <gtest/gtest.h>

#include "layers/layer_fixture.h"
#include "ops/copy.h"

namespace quire::testing {
namespace {

constexpr int64_t kHidden = 24;

struct Results {
  std::vector<float> embedded;
  std::vector<float> logits;
};

class VocabularyOfAnySize : public ::testing::TestWithParam<int64_t> {
 protected:
  VocabularyOfAnySize() {
    source_.add_random("embed.weight", {GetParam(), kHidden});
    source_.add_random("head.weight", {GetParam(), kHidden});
  }

  Results run(RankContext& rank, bool tied) const {
    const int64_t vocab = GetParam();
    const VocabParallelEmbedding embedding(rank.layer, "embed", vocab, kHidden);
    std::unique_ptr<ParallelLMHead> head = tied ? std::make_unique<ParallelLMHead>(rank.layer, "head", embedding)
                                                : std::make_unique<ParallelLMHead>(rank.layer, "head", vocab, kHidden);
    LoadOptions options;
    if (tied) options.ignored_suffixes = {"head.weight"};
    EXPECT_TRUE(rank.parameters.load(source_, options).ok());
    std::vector<int32_t> ids;
    for (int64_t id = 0; id < vocab; ++id) ids.push_back(static_cast<int32_t>(vocab - 1 - id));
    rank.batch.token_ids = Tensor::empty(1, vocab, DType::kInt32);
    ops::copy_from_host(rank.op, std::span<const int32_t>(ids), rank.batch.token_ids);
    Tensor embedded = Tensor::empty(vocab, kHidden, DType::kFloat32);
    embedding.forward(rank.batch, embedded);
    const Tensor logits = head->logits(rank.op, random_rows(5, kHidden, 9), {});
    EXPECT_EQ(logits.defined(), rank.layer.tensor_parallel.rank == 0);
    if (logits.defined()) {
      EXPECT_EQ(logits.cols(), vocab) << "padding must not be among the logits";
    }
    return {values_of(embedded), logits.defined() ? values_of(logits) : std::vector<float>()};
  }

  MemorySource source_;
};

TEST_P(VocabularyOfAnySize, TP_04_EveryNumberOfRanksGivesTheSameBits) {
  for (const bool tied : {false, true}) {
    RankContext whole({0, 1});
    const Results expected = run(whole, tied);
    for (int size = 2; size <= 4; ++size) {
      on_ranks(size, [&](RankContext& rank) {
        const Results results = run(rank, tied);
        EXPECT_EQ(results.embedded, expected.embedded) << size << " ranks";
        if (rank.layer.tensor_parallel.rank == 0) {
          EXPECT_EQ(results.logits, expected.logits) << size << " ranks";
        }
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, VocabularyOfAnySize, ::testing::Values(3, 17, 64, 1003));

}  // namespace
}  // namespace quire::testing

#include "distributed/parallel_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "distributed/communication_op.h"
#include "distributed/rank_threads.h"

namespace quire {
namespace {

using Groups = std::vector<std::vector<int>>;

TEST(ParallelState, TensorParallelRanksAreAdjacent) {
  EXPECT_EQ(tensor_parallel_groups(2, 3), (Groups{{0, 1}, {2, 3}, {4, 5}}));
  EXPECT_EQ(pipeline_parallel_groups(2, 3), (Groups{{0, 2, 4}, {1, 3, 5}}));
  EXPECT_EQ(tensor_parallel_groups(1, 2), (Groups{{0}, {1}}));
  EXPECT_EQ(pipeline_parallel_groups(3, 1), (Groups{{0}, {1}, {2}}));
}

TEST(ParallelState, GroupsInsideGroupsWorkSideBySide) {
  const auto segment = make_segment(small_segment(6));
  on_threads(6, [&](int rank) {
    ParallelState state;
    ASSERT_TRUE(state.init_distributed_environment(std::make_unique<ShmTransport>(segment, rank)).ok());
    ASSERT_TRUE(state.initialize_model_parallel(2, 3).ok());
    const CurrentParallelState entered(state);
    ASSERT_TRUE(model_parallel_is_initialized());
    EXPECT_EQ(get_world_group().rank(), rank);
    EXPECT_EQ(get_tp_group().rank_in_group(), rank % 2);
    EXPECT_EQ(get_tensor_model_parallel_rank(), rank % 2);
    EXPECT_EQ(get_tensor_model_parallel_world_size(), 2);
    GroupCoordinator& pipeline = get_pp_group();
    EXPECT_EQ(pipeline.rank_in_group(), rank / 2);
    EXPECT_EQ(pipeline.rank(), rank);
    EXPECT_EQ(pipeline.first_rank(), rank % 2);
    EXPECT_EQ(pipeline.last_rank(), rank % 2 + 4);
    EXPECT_EQ(pipeline.next_rank(), (rank + 2) % 6);
    EXPECT_EQ(pipeline.prev_rank(), (rank + 4) % 6);
    EXPECT_EQ(pipeline.is_first_rank(), rank < 2);
    EXPECT_EQ(pipeline.is_last_rank(), rank >= 4);

    OpContext context;
    // A pipeline's step: receive from the stage before, reduce in the stage, send on; in between the world meets.
    for (int step = 0; step < 20; ++step) {
      Tensor x = Tensor::empty(1, 500, DType::kFloat32);
      std::fill_n(x.data<float>(), 500, 0.0f);
      if (!pipeline.is_first_rank()) {
        ASSERT_TRUE(pipeline.receive(x, pipeline.rank_in_group() - 1).ok());
      }
      for (int64_t i = 0; i < 500; ++i) x.data<float>()[i] += static_cast<float>(rank + step);
      tensor_model_parallel_all_reduce(context, x);
      ASSERT_FALSE(context.failure);
      if (!pipeline.is_last_rank()) {
        ASSERT_TRUE(pipeline.send(x, pipeline.rank_in_group() + 1).ok());
      }
      float expected = 0.0f;
      for (int stage = 0; stage <= rank / 2; ++stage)
        expected = 2.0f * expected + static_cast<float>(4 * stage + 1 + 2 * step);
      for (int64_t i = 0; i < 500; ++i) ASSERT_EQ(x.data<float>()[i], expected);
      if (step % 7 == 0) {
        ASSERT_TRUE(get_world_group().barrier().ok());
      }
    }
  });
}

TEST(ParallelState, TheCallsOfTheLayersWorkOnTheTensorParallelGroup) {
  const auto segment = make_segment(small_segment(2));
  on_threads(2, [&](int rank) {
    ParallelState state;
    ASSERT_TRUE(state.init_distributed_environment(std::make_unique<ShmTransport>(segment, rank)).ok());
    ASSERT_TRUE(state.initialize_model_parallel(2).ok());
    const CurrentParallelState entered(state);
    const Tensor x = rank_tensor(rank, 2, 4);
    Tensor sum = Tensor::empty(2, 4, DType::kFloat32), half = Tensor::empty(2, 2, DType::kFloat32);
    Tensor all = Tensor::empty(2, 8, DType::kFloat32), at_first = Tensor::empty(2, 8, DType::kFloat32);
    OpContext context;
    tensor_model_parallel_all_reduce(context, x, sum);
    tensor_model_parallel_reduce_scatter(context, x, half);
    tensor_model_parallel_all_gather(context, x, all);
    tensor_model_parallel_gather(context, x, at_first);
    ASSERT_FALSE(context.failure);
    EXPECT_EQ(sum.row<float>(1)[3], sum_of_ranks(2, 7));
    EXPECT_EQ(half.row<float>(1)[1], sum.row<float>(1)[2 * rank + 1]);
    EXPECT_EQ(all.row<float>(1)[7], rank_value(1, 7));
    if (rank == 0) {
      EXPECT_EQ(at_first.row<float>(1)[7], rank_value(1, 7));
    }
    tensor_model_parallel_broadcast(context, sum, 1);
    ASSERT_FALSE(context.failure);
  });
}

TEST(ParallelState, AStepGoesOnAfterTheFirstFailureWhichIsKept) {
  const auto segment = make_segment(small_segment(2));
  on_threads(2, [&](int rank) {
    ParallelState state;
    ASSERT_TRUE(state.init_distributed_environment(std::make_unique<ShmTransport>(segment, rank)).ok());
    ASSERT_TRUE(state.initialize_model_parallel(2).ok());
    const CurrentParallelState entered(state);
    if (rank == 1) return get_tp_group().abort("somebody said so");  // and never comes
    OpContext context;
    Tensor x = rank_tensor(rank, 2, 4), all = Tensor::empty(2, 8, DType::kFloat32);
    tensor_model_parallel_all_reduce(context, x);
    tensor_model_parallel_all_gather(context, x, all);
    ASSERT_TRUE(context.failure);
    EXPECT_THAT(context.failure->message,
                testing::AllOf(testing::HasSubstr("all_reduce"), testing::HasSubstr("somebody said so")));
  });
}

TEST(ParallelState, NamesAreUniqueAndTheRegistryKeepsNothingAlive) {
  ParallelState state;
  EXPECT_FALSE(state.distributed_environment_is_initialized());
  EXPECT_THROW(state.world(), CheckFailure);
  ASSERT_TRUE(state.init_distributed_environment(std::make_unique<SelfTransport>()).ok());
  EXPECT_THROW(state.tensor_parallel(), CheckFailure);
  ASSERT_TRUE(state.initialize_model_parallel().ok());
  EXPECT_EQ(state.world().unique_name(), "world:0");
  EXPECT_EQ(state.tensor_parallel().unique_name(), "tp:0");
  EXPECT_EQ(state.pipeline_parallel().unique_name(), "pp:0");
  EXPECT_EQ(state.find_group("tp:0").get(), &state.tensor_parallel());
  EXPECT_EQ(state.find_group("ep:0"), nullptr);
  state.destroy_model_parallel();
  EXPECT_EQ(state.find_group("tp:0"), nullptr);
  EXPECT_NE(state.find_group("world:0"), nullptr);
  ASSERT_TRUE(state.initialize_model_parallel().ok());
  EXPECT_EQ(state.tensor_parallel().unique_name(), "tp:1");
  state.destroy_distributed_environment();
  EXPECT_FALSE(state.model_parallel_is_initialized());
  EXPECT_EQ(state.find_group("world:0"), nullptr);
}

TEST(ParallelState, RefusesSizesThatDoNotMakeTheWorld) {
  ParallelState state;
  ASSERT_TRUE(state.init_distributed_environment(std::make_unique<SelfTransport>()).ok());
  for (const auto& [tensor, pipeline] : {std::pair{2, 1}, {1, 2}, {0, 1}, {-1, -1}, {1 << 30, 1 << 30}}) {
    const Status status = state.initialize_model_parallel(tensor, pipeline);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().message.find("1 ranks"), std::string::npos) << status.error().message;
  }
  EXPECT_FALSE(state.model_parallel_is_initialized());
}

TEST(ParallelState, AThreadSeesTheStateThatItEntered) {
  EXPECT_FALSE(model_parallel_is_initialized());
  EXPECT_THROW(get_tp_group(), CheckFailure);
  ParallelState first, second;
  ASSERT_TRUE(first.init_distributed_environment(std::make_unique<SelfTransport>()).ok());
  {
    const CurrentParallelState outer(first);
    {
      const CurrentParallelState inner(second);
      EXPECT_EQ(ParallelState::current(), &second);
    }
    EXPECT_EQ(&get_world_group(), &first.world());
    std::thread([] { EXPECT_EQ(ParallelState::current(), nullptr); }).join();
  }
  EXPECT_EQ(ParallelState::current(), nullptr);
}

TEST(ShmTransport, SaysWhenNoChannelIsLeft) {
  SegmentOptions options = small_segment(2);
  options.channels = 1;
  const auto segment = make_segment(options);
  ShmTransport transport(segment, 0);
  EXPECT_TRUE(transport.create_communicator("a", {{0, 1}}).ok());
  const auto second = transport.create_communicator("b", {{0, 1}});
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message.find("no channel is left for the group b"), std::string::npos);
  EXPECT_TRUE(transport.create_communicator("alone", {{0}, {1}}).ok());
}

}  // namespace
}  // namespace quire

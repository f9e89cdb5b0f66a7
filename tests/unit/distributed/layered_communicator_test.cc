// Groups whose ranks are on several machines, with threads for ranks and a memory file for each layer: no MPI needed.
#include "distributed/layered_communicator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "distributed/rank_threads.h"
#include "distributed/self_communicator.h"
#include "distributed/shm/shm_communicator.h"

namespace quire {
namespace {

using Machines = std::vector<int>;  // of each rank

std::unique_ptr<Communicator> layer_of(const std::string& name, const std::vector<int>& members, int rank,
                                       const std::shared_ptr<SharedSegment>& segment, int channel) {
  if (members.size() == 1) return std::make_unique<SelfCommunicator>(name, rank);
  const auto place = static_cast<int>(std::ranges::find(members, rank) - members.begin());
  return std::make_unique<ShmCommunicator>(name, segment, channel, place, members);
}

/// Runs fn(group) on a thread for each rank.
void with_machines(const Machines& machines, const std::function<void(Communicator&)>& fn) {
  const auto ranks = static_cast<int>(machines.size());
  const std::shared_ptr<SharedSegment> segment = make_segment(small_segment(ranks));
  on_threads(ranks, [&](int rank) {
    std::vector<int> everybody, here, firsts, seen;
    for (int member = 0; member < ranks; ++member) {
      everybody.push_back(member);
      const int machine = machines[static_cast<size_t>(member)];
      if (machine == machines[static_cast<size_t>(rank)]) here.push_back(member);
      if (std::ranges::find(seen, machine) != seen.end()) continue;
      seen.push_back(machine);
      firsts.push_back(member);
    }
    LayeredCommunicator::Layers layers;
    layers.machines = machines;
    layers.inside = layer_of("inside", here, rank, segment, 0);
    if (here.front() == rank) layers.between = layer_of("between", firsts, rank, segment, 1);
    layers.all = layer_of("all", everybody, rank, segment, 2);
    LayeredCommunicator group("tp:0", rank, everybody, std::move(layers));
    fn(group);
  });
}

Block block_of_tensor(const Tensor& x) {
  return {reinterpret_cast<std::byte*>(x.data<float>()), x.rows(), x.cols() * 4, x.row_stride() * 4};
}

class Layered : public testing::TestWithParam<Machines> {
 protected:
  int ranks() const { return static_cast<int>(GetParam().size()); }
};
INSTANTIATE_TEST_SUITE_P(Machines, Layered,
                         testing::Values(Machines{0, 0, 1}, Machines{0, 1, 1}, Machines{0, 0, 1, 1},
                                         Machines{0, 1, 0, 1}, Machines{0, 1, 2, 1, 0}));

TEST_P(Layered, SumsInTheOrderOfTheRanksWhereverTheyAre) {
  with_machines(GetParam(), [&](Communicator& group) {
    for (const int64_t cols : {0, 1, 1023, 300001}) {
      const Tensor x = rank_tensor(group.rank(), 1, cols);
      ASSERT_TRUE(group.all_reduce(read_only(block_of_tensor(x)), block_of_tensor(x)).ok());
      for (int64_t i = 0; i < cols; ++i) ASSERT_EQ(x.data<float>()[i], sum_of_ranks(ranks(), i)) << i << " of " << cols;
    }
    const Tensor apart = rank_tensor(group.rank(), 37, 50, 7);
    ASSERT_TRUE(group.all_reduce(read_only(block_of_tensor(apart)), block_of_tensor(apart)).ok());
    for (int64_t row = 0; row < 37; ++row) {
      for (int64_t col = 0; col < 50; ++col)
        ASSERT_EQ(apart.row<float>(row)[col], sum_of_ranks(ranks(), row * 50 + col));
    }
  });
}

/// The part of each rank: of another size each, and one of nothing.
int64_t part_cols(int rank) { return rank == 1 ? 0 : 1000 + 700 * rank; }

void expect_parts(const std::vector<Tensor>& parts) {
  for (int from = 0; from < static_cast<int>(parts.size()); ++from) {
    const Tensor& part = parts[static_cast<size_t>(from)];
    for (int64_t i = 0; i < part.cols(); ++i) ASSERT_EQ(part.data<float>()[i], rank_value(from, i)) << from;
  }
}

TEST_P(Layered, GathersPartsOfAnySizeToAllAndToEach) {
  with_machines(GetParam(), [&](Communicator& group) {
    const Tensor mine = rank_tensor(group.rank(), 1, part_cols(group.rank()));
    for (int destination = -1; destination < ranks(); ++destination) {
      std::vector<Tensor> parts;
      std::vector<Block> blocks;
      for (int from = 0; from < ranks(); ++from) {
        parts.push_back(Tensor::empty(1, part_cols(from), DType::kFloat32));
        blocks.push_back(block_of_tensor(parts.back()));
      }
      const ConstBlock own = read_only(block_of_tensor(mine));
      const Status status = destination < 0 ? group.all_gather(own, blocks) : group.gather(own, blocks, destination);
      ASSERT_TRUE(status.ok()) << status.error().message;
      if (destination < 0 || destination == group.rank()) expect_parts(parts);
    }
  });
}

TEST_P(Layered, ScattersSums) {
  with_machines(GetParam(), [&](Communicator& group) {
    std::vector<Tensor> parts;
    std::vector<ConstBlock> blocks;
    for (int to = 0; to < ranks(); ++to) {
      parts.push_back(rank_tensor(group.rank(), 1, part_cols(to)));
      blocks.push_back(read_only(block_of_tensor(parts.back())));
    }
    const Tensor out = Tensor::empty(1, part_cols(group.rank()), DType::kFloat32);
    ASSERT_TRUE(group.reduce_scatter(blocks, block_of_tensor(out)).ok());
    for (int64_t i = 0; i < out.cols(); ++i) ASSERT_EQ(out.data<float>()[i], sum_of_ranks(ranks(), i));
  });
}

TEST_P(Layered, BroadcastsAndSendsFromEachRank) {
  with_machines(GetParam(), [&](Communicator& group) {
    for (int source = 0; source < ranks(); ++source) {
      std::string text = group.rank() == source ? "from " + std::to_string(source) : "";
      ASSERT_TRUE(group.broadcast_string(text, source).ok());
      EXPECT_EQ(text, "from " + std::to_string(source));
      for (int destination = 0; destination < ranks(); ++destination) {
        if (destination == source) continue;
        int64_t number = group.rank() == source ? 100 * source + destination : 0;
        const Block block = block_of(static_cast<void*>(&number), sizeof(number));
        if (group.rank() == source) {
          ASSERT_TRUE(group.send(read_only(block), destination).ok());
        }
        if (group.rank() == destination) {
          ASSERT_TRUE(group.receive(block, source).ok());
          EXPECT_EQ(number, 100 * source + destination);
        }
      }
      ASSERT_TRUE(group.barrier().ok());
    }
  });
}

TEST_P(Layered, FindsRanksThatDoDifferentThingsOfOneSize) {
  std::atomic<int> found = 0;
  with_machines(GetParam(), [&](Communicator& group) {
    group.set_timeout(std::chrono::seconds(2));
    const Tensor x = rank_tensor(group.rank(), 1, 16);
    const Tensor all = Tensor::empty(ranks(), 16, DType::kFloat32);
    std::vector<Block> parts;
    for (int rank = 0; rank < ranks(); ++rank) parts.push_back(block_of_tensor(all.slice_rows(rank, 1)));
    const ConstBlock own = read_only(block_of_tensor(x));
    const Status status = group.rank() == 0 ? group.all_reduce(own, block_of_tensor(x)) : group.all_gather(own, parts);
    if (status.ok()) return;
    if (status.error().message.find("as a part of all_") != std::string::npos) ++found;
    group.abort(status.error().message);
  });
  EXPECT_GE(found, 1);
}

TEST_P(Layered, AnAbortEndsAllWaitsAndATimeoutNamesWhoDidNotCome) {
  with_machines(GetParam(), [&](Communicator& group) {
    if (group.rank() == ranks() - 1) return;
    group.set_timeout(std::chrono::milliseconds(100 + 1900 * group.rank()));
    const Status status = group.barrier();
    ASSERT_FALSE(status.ok());
    group.abort(status.error().message);
    EXPECT_NE(status.error().message.find("waited"), std::string::npos) << status.error().message;
  });
}

}  // namespace
}  // namespace quire

// Every operation, for groups of 1 to 5 ranks as threads, with sizes from nothing to several buffers.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <string>

#include "distributed/rank_threads.h"

namespace quire {
namespace {

constexpr int64_t kLengths[] = {0, 1, 3, 16, 1023, 1024, 1025, 5000, 40001};

class Collectives : public testing::TestWithParam<int> {
 protected:
  int ranks() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, testing::Values(1, 2, 3, 4, 5));

TEST_P(Collectives, AllReduceSumsInRankOrderInPlaceAndBeside) {
  with_world(small_segment(ranks()), [&](GroupCoordinator& world) {
    for (const int64_t length : kLengths) {
      const Tensor x = rank_tensor(world.rank(), 1, length);
      Tensor out = Tensor::empty(1, length, DType::kFloat32);
      ASSERT_TRUE(world.all_reduce(x, out).ok());
      Tensor in_place = rank_tensor(world.rank(), 1, length);
      ASSERT_TRUE(world.all_reduce(in_place).ok());
      for (int64_t i = 0; i < length; ++i) {
        ASSERT_EQ(x.data<float>()[i], rank_value(world.rank(), i));
        ASSERT_EQ(out.data<float>()[i], sum_of_ranks(ranks(), i)) << i << " of " << length;
        ASSERT_EQ(in_place.data<float>()[i], sum_of_ranks(ranks(), i)) << i << " of " << length;
      }
    }
  });
}

TEST_P(Collectives, AllReduceTakesRowsThatLieApartAndLeavesWhatIsBetween) {
  with_world(small_segment(ranks()), [&](GroupCoordinator& world) {
    const Tensor memory = Tensor::empty(37, 53, DType::kFloat32);
    std::fill_n(memory.data<float>(), memory.size(), -1.0f);
    Tensor out = memory.slice_cols(2, 50);
    ASSERT_TRUE(world.all_reduce(rank_tensor(world.rank(), 37, 50, 7), out).ok());
    for (int64_t row = 0; row < 37; ++row) {
      ASSERT_EQ(memory.row<float>(row)[1], -1.0f);
      ASSERT_EQ(memory.row<float>(row)[52], -1.0f);
      for (int64_t col = 0; col < 50; ++col) ASSERT_EQ(out.row<float>(row)[col], sum_of_ranks(ranks(), row * 50 + col));
    }
  });
}

TEST_P(Collectives, AllReduceHasTheSameBitsWhateverTheBuffer) {
  for (const int64_t chunk : {int64_t{4096}, int64_t{64} << 10, int64_t{1} << 20}) {
    SegmentOptions options = small_segment(ranks());
    options.chunk_bytes = chunk;
    with_world(options, [&](GroupCoordinator& world) {
      Tensor x = rank_tensor(world.rank(), 1, 100001);
      ASSERT_TRUE(world.all_reduce(x).ok());
      for (int64_t i = 0; i < x.size(); ++i) ASSERT_EQ(x.data<float>()[i], sum_of_ranks(ranks(), i));
    });
  }
}

TEST_P(Collectives, AllGatherPutsPartsSideBySideAlongEitherDimension) {
  with_world(small_segment(ranks()), [&](GroupCoordinator& world) {
    for (const int64_t cols : {0, 1, 7, 300}) {
      const Tensor x = rank_tensor(world.rank(), 11, cols);
      Tensor columns = Tensor::empty(11, cols * ranks(), DType::kFloat32);
      Tensor rows = Tensor::empty(11 * ranks(), cols, DType::kFloat32);
      ASSERT_TRUE(world.all_gather(x, columns, -1).ok());
      ASSERT_TRUE(world.all_gather(x, rows, 0).ok());
      for (int from = 0; from < ranks(); ++from) {
        for (int64_t row = 0; row < 11; ++row) {
          for (int64_t col = 0; col < cols; ++col) {
            const float expected = rank_value(from, row * cols + col);
            ASSERT_EQ(columns.row<float>(row)[from * cols + col], expected);
            ASSERT_EQ(rows.row<float>(from * 11 + row)[col], expected);
          }
        }
      }
    }
  });
}

/// Parts of unequal extent, one of them empty: 0, 5, 10, ...
std::vector<int64_t> uneven_sizes(int ranks) {
  std::vector<int64_t> sizes;
  for (int rank = 0; rank < ranks; ++rank) sizes.push_back(5 * rank * rank * 31);
  return sizes;
}

TEST_P(Collectives, PartsMayDifferInSize) {
  with_world(small_segment(ranks()), [&](GroupCoordinator& world) {
    const std::vector<int64_t> sizes = uneven_sizes(ranks());
    const int64_t all = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    const int64_t own = sizes[static_cast<size_t>(world.rank())];
    Tensor gathered = Tensor::empty(3, all, DType::kFloat32);
    ASSERT_TRUE(world.all_gather(rank_tensor(world.rank(), 3, own), gathered, -1, sizes).ok());
    Tensor at_last = Tensor::empty(3, all, DType::kFloat32);
    const int last = ranks() - 1;
    ASSERT_TRUE(world.gather(rank_tensor(world.rank(), 3, own), at_last, last, -1, sizes).ok());
    Tensor part = Tensor::empty(3, own, DType::kFloat32);
    ASSERT_TRUE(world.reduce_scatter(rank_tensor(world.rank(), 3, all), part, -1, sizes).ok());
    int64_t begin = 0;
    for (int from = 0; from < ranks(); ++from) {
      const int64_t size = sizes[static_cast<size_t>(from)];
      for (int64_t row = 0; row < 3; ++row) {
        for (int64_t col = 0; col < size; ++col) {
          ASSERT_EQ(gathered.row<float>(row)[begin + col], rank_value(from, row * size + col));
          if (world.rank() == last) {
            ASSERT_EQ(at_last.row<float>(row)[begin + col], rank_value(from, row * size + col));
          }
          if (world.rank() == from) {
            ASSERT_EQ(part.row<float>(row)[col], sum_of_ranks(ranks(), row * all + begin + col));
          }
        }
      }
      begin += size;
    }
  });
}

TEST_P(Collectives, ReduceScatterAndAllGatherMakeAnAllReduce) {
  with_world(small_segment(ranks()), [&](GroupCoordinator& world) {
    Tensor x = rank_tensor(world.rank(), 4 * ranks(), 700);
    Tensor part = Tensor::empty(4, 700, DType::kFloat32);
    Tensor again = Tensor::empty(4 * ranks(), 700, DType::kFloat32);
    ASSERT_TRUE(world.reduce_scatter(x, part, 0).ok());
    ASSERT_TRUE(world.all_gather(part, again, 0).ok());
    ASSERT_TRUE(world.all_reduce(x).ok());
    EXPECT_EQ(std::memcmp(x.raw(), again.raw(), static_cast<size_t>(x.size()) * sizeof(float)), 0);
  });
}

TEST_P(Collectives, GatherGivesToOneRankOnly) {
  with_world(small_segment(ranks()), [&](GroupCoordinator& world) {
    for (int destination = 0; destination < ranks(); ++destination) {
      for (const int64_t cols : {1, 3000}) {
        Tensor out;
        if (world.rank() == destination) out = Tensor::empty(2, cols * ranks(), DType::kFloat32);
        ASSERT_TRUE(world.gather(rank_tensor(world.rank(), 2, cols), out, destination).ok());
        for (int64_t i = 0; i < 2 * cols * ranks() && world.rank() == destination; ++i) {
          const int64_t row = i / (cols * ranks()), col = i % (cols * ranks());
          ASSERT_EQ(out.row<float>(row)[col], rank_value(static_cast<int>(col / cols), row * cols + col % cols));
        }
      }
    }
  });
}

TEST_P(Collectives, BroadcastOfTensorsOfAnyTypeAndOfObjectsOfAnyLength) {
  with_world(small_segment(ranks()), [&](GroupCoordinator& world) {
    for (int source = 0; source < ranks(); ++source) {
      Tensor ids = Tensor::empty(1, 2049, DType::kInt32);
      for (int32_t i = 0; i < 2049; ++i) ids.data<int32_t>()[i] = world.rank() == source ? i * (source + 1) : -1;
      ASSERT_TRUE(world.broadcast(ids, source).ok());
      for (int32_t i = 0; i < 2049; ++i) ASSERT_EQ(ids.data<int32_t>()[i], i * (source + 1));
      for (const size_t length : {0, 1, 4095, 4096, 4097, 100000}) {
        std::string text = world.rank() == source ? std::string(length, static_cast<char>('a' + source)) : "other";
        ASSERT_TRUE(world.broadcast_object(text, source).ok());
        ASSERT_EQ(text, std::string(length, static_cast<char>('a' + source)));
      }
    }
  });
}

TEST_P(Collectives, SendAndReceiveGoRoundTheRing) {
  if (ranks() == 1) GTEST_SKIP() << "a message needs two ranks";
  with_world(small_segment(ranks()), [&](GroupCoordinator& world) {
    const int next = (world.rank_in_group() + 1) % ranks(), previous = (world.rank_in_group() + ranks() - 1) % ranks();
    for (const int64_t cols : {0, 1, 9999, 70001}) {
      Tensor received = Tensor::empty(3, cols, DType::kFloat32);
      // The first rank receives first where the message may be larger than the buffers.
      if (world.is_first_rank()) {
        ASSERT_TRUE(world.receive(received, previous).ok());
        ASSERT_TRUE(world.send(rank_tensor(world.rank(), 3, cols, 1), next).ok());
      } else {
        ASSERT_TRUE(world.send(rank_tensor(world.rank(), 3, cols, 1), next).ok());
        ASSERT_TRUE(world.receive(received, previous).ok());
      }
      for (int64_t i = 0; i < 3 * cols; ++i) ASSERT_EQ(received.data<float>()[i], rank_value(previous, i));
    }
  });
}

TEST_P(Collectives, BarrierHoldsAllBackUntilTheLastHasCome) {
  std::atomic<int> arrived{0};
  with_world(small_segment(ranks()), [&](GroupCoordinator& world) {
    for (int round = 1; round <= 200; ++round) {
      ++arrived;
      ASSERT_TRUE(world.barrier().ok());
      ASSERT_GE(arrived.load(), round * ranks());
    }
  });
}

TEST_P(Collectives, ManyMixedOperationsInARowStayInStep) {
  for (const int spin : {0, 100}) {
    SegmentOptions options = small_segment(ranks());
    options.spin = std::chrono::microseconds(spin);
    with_world(options, [&](GroupCoordinator& world) {
      for (int64_t i = 0; i < 300; ++i) {
        Tensor x = rank_tensor(world.rank(), 1, 1 + i * 7 % 900);
        ASSERT_TRUE(world.all_reduce(x).ok());
        ASSERT_EQ(x.data<float>()[x.size() - 1], sum_of_ranks(ranks(), x.size() - 1));
        std::string plan = "step " + std::to_string(i);
        if (!world.is_first_rank()) plan.clear();
        ASSERT_TRUE(world.broadcast_object(plan).ok());
        ASSERT_EQ(plan, "step " + std::to_string(i));
        Tensor all = Tensor::empty(1, ranks(), DType::kFloat32);
        ASSERT_TRUE(world.all_gather(x.slice_cols(0, 1), all).ok());
        ASSERT_EQ(all.data<float>()[ranks() - 1], sum_of_ranks(ranks(), 0));
        Tensor unused;
        if (world.rank() == 0) unused = Tensor::empty(1, ranks(), DType::kFloat32);
        ASSERT_TRUE(world.gather(x.slice_cols(0, 1), unused).ok());
      }
    });
  }
}

}  // namespace
}  // namespace quire

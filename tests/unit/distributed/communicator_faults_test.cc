// Waits that must end: aborted, timed out, or because the ranks do different things.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "distributed/rank_threads.h"

namespace quire {
namespace {

using std::chrono::milliseconds;

TEST(CommunicatorFaults, AbortFromAnotherThreadEndsTheWaitsOfAllRanks) {
  for (const int spin : {0, 1000000}) {  // parked; polling
    SegmentOptions options = small_segment(3);
    options.spin = std::chrono::microseconds(spin);
    const auto begin = std::chrono::steady_clock::now();
    with_world(options, [&](GroupCoordinator& world) {
      if (world.rank() == 2) {  // never comes
        std::thread other([&] {
          std::this_thread::sleep_for(milliseconds(30));
          world.abort("the test ends it");
        });
        other.join();
        return;
      }
      Tensor x = rank_tensor(world.rank(), 1, 10);
      const Status status = world.all_reduce(x);
      ASSERT_FALSE(status.ok());
      EXPECT_NE(status.error().message.find("the test ends it"), std::string::npos) << status.error().message;
      EXPECT_NE(status.error().message.find("world:0"), std::string::npos) << status.error().message;
    });
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  }
}

TEST(CommunicatorFaults, EveryOperationTimesOutAndThenStaysFailed) {
  using Call = std::function<Status(GroupCoordinator&)>;
  Tensor x = Tensor::empty(1, 6, DType::kFloat32), part = Tensor::empty(1, 3, DType::kFloat32);
  std::string text;
  const std::vector<Call> calls = {
      [&](GroupCoordinator& world) { return world.all_reduce(x); },
      [&](GroupCoordinator& world) { return world.all_gather(part, x); },
      [&](GroupCoordinator& world) { return world.reduce_scatter(x, part); },
      [&](GroupCoordinator& world) { return world.gather(part, x); },
      [&](GroupCoordinator& world) { return world.broadcast(x, 1); },
      [&](GroupCoordinator& world) { return world.broadcast_object(text, 1); },
      [&](GroupCoordinator& world) { return world.receive(x, 1); },
      [&](GroupCoordinator& world) {
        Tensor large = Tensor::empty(1, 100000, DType::kFloat32);  // more than the buffers take
        std::fill_n(large.data<float>(), large.size(), 0.0f);
        return world.send(large, 1);
      },
      [&](GroupCoordinator& world) { return world.barrier(); },
  };
  std::fill_n(x.data<float>(), x.size(), 0.0f);
  std::fill_n(part.data<float>(), part.size(), 0.0f);
  for (const Call& call : calls) {
    with_world(small_segment(2), [&](GroupCoordinator& world) {
      if (world.rank() != 0) return;
      world.set_timeout(milliseconds(20));
      const Status first = call(world);
      ASSERT_FALSE(first.ok());
      EXPECT_NE(first.error().message.find("waited 20 ms for rank 1"), std::string::npos) << first.error().message;
      EXPECT_EQ(first.error().kind, ErrorKind::kUnavailable);
      const Status second = world.barrier();
      ASSERT_FALSE(second.ok());
      EXPECT_EQ(second.error().message, first.error().message);
    });
  }
}

TEST(CommunicatorFaults, DifferentOperationsAndSizesAreFound) {
  with_world(small_segment(2), [&](GroupCoordinator& world) {
    Tensor x = rank_tensor(world.rank(), 1, world.rank() == 0 ? 8 : 9);
    const Status status = world.all_reduce(x);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().message.find("all_reduce of 32 bytes"), std::string::npos) << status.error().message;
    EXPECT_NE(status.error().message.find("all_reduce of 36 bytes"), std::string::npos) << status.error().message;
  });
  with_world(small_segment(2), [&](GroupCoordinator& world) {
    Tensor x = rank_tensor(world.rank(), 1, 8);
    const Status status = world.rank() == 0 ? world.all_reduce(x) : world.barrier();
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().message.find("barrier"), std::string::npos) << status.error().message;
  });
  with_world(small_segment(2), [&](GroupCoordinator& world) {
    Tensor x = rank_tensor(world.rank(), 1, world.rank() == 0 ? 8 : 9);
    if (world.rank() == 0) {
      ASSERT_TRUE(world.send(x, 1).ok());
      return;
    }
    const Status status = world.receive(x, 0);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().message.find("sent 32 bytes where 36 were expected"), std::string::npos)
        << status.error().message;
  });
}

TEST(SharedSegment, RefusesWhatDoesNotFit) {
  SegmentOptions options = small_segment(3);
  options.build = "one";
  const auto segment = make_segment(options);
  const auto attach = [&](int ranks, std::string_view build) {
    return SharedSegment::attach(dup(segment->fd()), ranks, build);
  };
  EXPECT_TRUE(attach(3, "one").ok());
  const auto other_count = attach(2, "one");
  ASSERT_FALSE(other_count.ok());
  EXPECT_NE(other_count.error().message.find("expects 3 ranks and this rank was told of 2"), std::string::npos);
  const auto other_build = attach(3, "two");
  ASSERT_FALSE(other_build.ok());
  EXPECT_NE(other_build.error().message.find("build one and this rank is build two"), std::string::npos);
  EXPECT_FALSE(SharedSegment::attach(dup(0), 3, "one").ok());
  EXPECT_FALSE(SharedSegment::attach(-1, 3, "one").ok());

  EXPECT_TRUE(segment->join(1).ok());
  EXPECT_FALSE(segment->join(1).ok());
  EXPECT_FALSE(segment->join(3).ok());
  options.ranks = SharedSegment::kMaxRanks + 1;
  EXPECT_FALSE(SharedSegment::create(options).ok());
}

TEST(SharedSegment, OnlyTheFirstReasonToAbortIsKept) {
  const auto segment = make_segment(small_segment(1));
  EXPECT_EQ(segment->abort_reason(), "");
  segment->abort(std::string(1000, 'x'));
  segment->abort("second");
  EXPECT_TRUE(segment->aborted());
  EXPECT_EQ(segment->abort_reason(), std::string(479, 'x'));
}

TEST(SharedSegment, ManyWhoAbortAtOnceGiveOneWholeReason) {
  for (int round = 0; round < 50; ++round) {
    const auto segment = make_segment(small_segment(1));
    std::vector<std::string> reasons;
    std::vector<std::thread> threads;
    for (int i = 0; i < 6; ++i) reasons.emplace_back(300, static_cast<char>('a' + i));
    for (const std::string& reason : reasons) threads.emplace_back([&] { segment->abort(reason); });
    while (!segment->aborted()) std::this_thread::yield();
    const std::string heard = segment->abort_reason();
    for (std::thread& thread : threads) thread.join();
    EXPECT_NE(std::ranges::find(reasons, heard), reasons.end()) << heard;
    EXPECT_EQ(segment->abort_reason(), heard);
  }
}

}  // namespace
}  // namespace quire

#include "base/cpu_topology.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/cgroup_limits.h"
#include "base/huge_page_arena.h"
#include "base/thread_pool.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

/// A tree of files as the kernel shows control groups, in a folder of its own.
class CgroupTest : public testing::Test {
 protected:
  CgroupTest() : folder_(fs::path(testing::TempDir()) / ("quire_cgroup_" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
    paths_ = {(folder_ / "membership").string(), (folder_ / "root").string()};
    fs::create_directories(paths_.root);
  }
  ~CgroupTest() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }
  fs::path folder_;
  CgroupPaths paths_;
};

TEST_F(CgroupTest, CPUS_03_QuotaOfVersion2IsTheStrictestAbove) {
  write("membership", "0::/system/quire\n");
  write("root/system/cpu.max", "150000 100000\n");
  write("root/system/quire/cpu.max", "max 100000\n");
  EXPECT_DOUBLE_EQ(cgroup_cpu_quota(paths_).value(), 1.5);
  write("root/system/quire/cpu.max", "50000 100000\n");
  EXPECT_DOUBLE_EQ(cgroup_cpu_quota(paths_).value(), 0.5);
}

TEST_F(CgroupTest, CPUS_03_InsideAContainerTheRootIsTheOwnGroup) {
  write("membership", "0::/../../outside/of/the/namespace\n");
  write("root/cpu.max", "200000 100000\n");
  EXPECT_DOUBLE_EQ(cgroup_cpu_quota(paths_).value(), 2.0);
}

TEST_F(CgroupTest, CPUS_03_QuotaOfVersion1) {
  write("membership", "5:memory:/docker/a\n4:cpu,cpuacct:/docker/a\n");
  write("root/cpu,cpuacct/docker/a/cpu.cfs_quota_us", "250000\n");
  write("root/cpu,cpuacct/docker/a/cpu.cfs_period_us", "100000\n");
  write("root/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write("root/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(cgroup_cpu_quota(paths_).value(), 2.5);
}

TEST_F(CgroupTest, NoQuotaAndNoFilesMeanNoLimit) {
  EXPECT_FALSE(cgroup_cpu_quota(paths_).has_value());
  EXPECT_FALSE(cgroup_memory_left(paths_).has_value());
  write("membership", "0::/\nnonsense\n");
  write("root/cpu.max", "max 100000\n");
  write("root/memory.max", "max\n");
  EXPECT_FALSE(cgroup_cpu_quota(paths_).has_value());
  EXPECT_FALSE(cgroup_memory_left(paths_).has_value());
}

TEST_F(CgroupTest, MemoryLeftCountsInactiveFilePagesAsFree) {
  write("membership", "0::/a/b\n");
  write("root/a/memory.max", "10000000\n");
  write("root/a/memory.current", "9000000\n");
  write("root/a/memory.stat", "anon 1000000\ninactive_file 3000000\nactive_file 100\n");
  write("root/a/b/memory.max", "max\n");
  EXPECT_EQ(cgroup_memory_left(paths_).value(), 4000000);
}

TEST_F(CgroupTest, MemoryOfVersion1) {
  write("membership", "5:memory:/docker/a\n");
  write("root/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("root/memory/docker/a/memory.limit_in_bytes", "5000\n");
  write("root/memory/docker/a/memory.usage_in_bytes", "7000\n");
  EXPECT_EQ(cgroup_memory_left(paths_).value(), 0);
}

TEST(CpuTopologyTest, TheMachineIsDescribed) {
  const std::vector<int> cpus = allowed_cpus();
  ASSERT_FALSE(cpus.empty());
  EXPECT_TRUE(std::is_sorted(cpus.begin(), cpus.end()));
  EXPECT_GE(default_compute_threads(), 1);
  EXPECT_LE(default_compute_threads(), static_cast<int>(cpus.size()));
  const CacheSizes caches = cache_sizes();
  EXPECT_GE(caches.l1_data, 8u << 10);
  EXPECT_GE(caches.l2, caches.l1_data);
  EXPECT_FALSE(cpu_model_name().empty());
  EXPECT_GT(available_memory(), 0);
}

TEST(HugePageArenaTest, HandsOutAlignedZeroedMemoryThatDoesNotOverlap) {
  HugePageArena arena;
  std::vector<std::pair<std::byte*, size_t>> pieces;
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{100}, size_t{3} << 20, size_t{60} << 20, size_t{70} << 20, size_t{64}}) {
    auto* const piece = static_cast<std::byte*>(arena.allocate(bytes));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(piece) % 64, 0u);
    if (bytes > 0) {
      EXPECT_EQ(piece[0], std::byte{0});
      EXPECT_EQ(piece[bytes - 1], std::byte{0});
      piece[0] = piece[bytes - 1] = std::byte{1};
    }
    for (const auto& [other, size] : pieces) EXPECT_TRUE(piece + bytes <= other || other + size <= piece);
    pieces.emplace_back(piece, bytes);
  }
  EXPECT_GE(arena.allocated_bytes(), size_t{133} << 20);
}

TEST(HugePageArenaTest, BigMemoryStartsOnAHugePage) {
  HugePageArena arena;
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.allocate(size_t{100} << 20)) % (size_t{2} << 20), 0u);
}

}  // namespace
}  // namespace quire

// Ranks that mpirun starts: the collectives' tests again, and jobs that fail. Skipped where there is no Open MPI.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <string>
#include <thread>

#include "distributed/mpi/mpi_library.h"
#include "distributed/rank_threads.h"

namespace quire {
namespace {

struct Output {
  std::string text;
  int exit_code = -1;
};

Output run(const std::string& command) {
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  Output output;
  char buffer[4096];
  for (size_t count = 0; (count = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) output.text.append(buffer, count);
  const int status = pclose(pipe);
  output.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return output;
}

/// This program's tests of that name as a job of a rank for each letter of `machines`, which names the machine that the
/// rank takes itself to be on. Between those it goes over TCP.
Output under_mpirun(const std::string& machines, const std::string& filter) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  std::string command = "QUIRE_TEST_MPI=1 timeout 100 mpirun --allow-run-as-root --oversubscribe --mca btl tcp,self";
  for (size_t rank = 0; rank < machines.size(); ++rank) {
    command += std::string(rank == 0 ? "" : " :") + " -np 1 env QUIRE_MPI_MACHINE=" + machines[rank] + " " + self +
               " --gtest_also_run_disabled_tests --gtest_brief=1 --gtest_filter=" + filter;
  }
  return run(command);
}

/// Why MPI's tests cannot run here; empty if they can.
std::string missing() {
  if (run("mpirun --version").exit_code != 0) return "Open MPI's mpirun is not installed (openmpi-bin)";
  const auto library = load_mpi();
  return library.ok() ? std::string() : library.error().message;
}

class MpiJobs : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string reason = missing();
    if (!reason.empty()) GTEST_SKIP() << reason;
  }
};
INSTANTIATE_TEST_SUITE_P(Machines, MpiJobs,
                         testing::Values("a", "ab", "aa", "abc", "aab", "abcd", "aabb", "abab", "aaaa"));

TEST_P(MpiJobs, TheCollectivesGiveWhatTheyGiveOnOneMachine) {
  // Parameters count from 0. The barrier's test counts in memory that processes do not share.
  const size_t ranks = std::string(GetParam()).size();
  const std::string filter = "'Ranks/Collectives.*/" + std::to_string(ranks - 1) + "-*Barrier*'";
  const Output output = under_mpirun(GetParam(), filter);
  EXPECT_EQ(output.exit_code, 0) << output.text;
  EXPECT_NE(output.text.find("[  PASSED  ]"), std::string::npos) << output.text;
}

class MpiFaults : public MpiJobs {};
INSTANTIATE_TEST_SUITE_P(Machines, MpiFaults, testing::Values("ab", "aa"));

TEST_P(MpiFaults, ARankThatEndsEndsTheJobWithinSeconds) {
  const auto begin = std::chrono::steady_clock::now();
  const Output output = under_mpirun(GetParam(), "MpiProgram.DISABLED_RankOneEnds");
  EXPECT_NE(output.exit_code, 0);
  EXPECT_NE(output.text.find("exit"), std::string::npos) << output.text;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST_P(MpiFaults, WaitsTimeOutAndCanBeBrokenOff) {
  const Output output = under_mpirun(GetParam(), "MpiProgram.DISABLED_RankOneNeverComes");
  // The wait begins a moment after its deadline was set: 199 ms are as good as 200.
  EXPECT_TRUE(std::regex_search(output.text, std::regex("waited [0-9]+ ms for rank 1 of the world"))) << output.text;
  const Output aborted = under_mpirun(GetParam(), "MpiProgram.DISABLED_AnotherThreadAborts");
  EXPECT_NE(aborted.text.find("the test ends it"), std::string::npos) << aborted.text;
}

TEST_P(MpiFaults, ARankThatIsStoppedIsNoticedByTheOthers) {
  const auto begin = std::chrono::steady_clock::now();
  const Output output = under_mpirun(GetParam(), "MpiProgram.DISABLED_RankOneStops");
  EXPECT_TRUE(
      std::regex_search(output.text, std::regex("broken off: rank 1 \\(host .+\\) has given no sign of life for "
                                                "5 s")))
      << output.text;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(40));
}

TEST_P(MpiFaults, DifferentOperationsAreFound) {
  const Output output = under_mpirun(GetParam(), "MpiProgram.DISABLED_RanksDoDifferentThings");
  EXPECT_NE(output.text.find("does barrier of 0 bytes while this rank does all_gather of 8 bytes"), std::string::npos)
      << output.text;
}

// What the jobs above run; by themselves they have no MPI job to be in. A failed job is left as the server would leave
// it: with an exit code, without waiting for the others.

void end_with(const Status& status) {
  std::fprintf(stderr, "%s\n", status.ok() ? "no error" : status.error().message.c_str());
  std::fflush(stderr);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // so that the other rank's words come out too
  _exit(1);
}

TEST(MpiProgram, DISABLED_RankOneEnds) {
  with_mpi_world(2, [](GroupCoordinator& world) {
    ASSERT_TRUE(world.barrier().ok());
    if (world.rank() == 1) _exit(9);
    world.set_timeout(std::chrono::milliseconds(0));
    end_with(world.barrier());
  });
}

TEST(MpiProgram, DISABLED_RankOneStops) {
  with_mpi_world(2, [](GroupCoordinator& world) {
    ASSERT_TRUE(world.barrier().ok());
    if (world.rank() == 1) raise(SIGSTOP);
    world.set_timeout(std::chrono::milliseconds(0));
    end_with(world.barrier());
  });
}

TEST(MpiProgram, DISABLED_RankOneNeverComes) {
  with_mpi_world(2, [](GroupCoordinator& world) {
    if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(20));
    world.set_timeout(std::chrono::milliseconds(200));
    end_with(world.barrier());
  });
}

TEST(MpiProgram, DISABLED_AnotherThreadAborts) {
  with_mpi_world(2, [](GroupCoordinator& world) {
    if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(20));
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      world.abort("the test ends it");
    });
    const Status status = world.barrier();
    other.join();
    end_with(status);
  });
}

TEST(MpiProgram, DISABLED_RanksDoDifferentThings) {
  with_mpi_world(2, [](GroupCoordinator& world) {
    const Tensor x = rank_tensor(0, 1, 1);
    Tensor all = Tensor::empty(1, 2, DType::kFloat32);
    end_with(world.rank() == 0 ? world.all_gather(x, all) : world.barrier());
  });
}

TEST(MpiLibrary, SaysWhatIsMissing) {
  setenv("QUIRE_MPI_LIBRARY", "/nowhere/libquire_mpi.so", 1);
  const auto library = load_mpi();
  ASSERT_FALSE(library.ok());
  EXPECT_NE(library.error().message.find("MPI cannot be loaded"), std::string::npos) << library.error().message;
  EXPECT_NE(library.error().message.find("openmpi-bin"), std::string::npos) << library.error().message;
  unsetenv("QUIRE_MPI_LIBRARY");
}

}  // namespace
}  // namespace quire

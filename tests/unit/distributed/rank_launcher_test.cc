// Ranks as processes: they compute, die, stop, and never outlive rank 0.
#include "distributed/rank_launcher.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "distributed/rank_process.h"
#include "distributed/rank_threads.h"

namespace quire {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

RankLauncherOptions launch(int ranks, const std::string& program) {
  RankLauncherOptions options;
  options.segment.ranks = ranks;
  options.environment = {"QUIRE_TEST_PROGRAM=" + program};
  return options;
}

bool is_running(int process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);  // fails, and does not throw, where the process ends meanwhile
  const size_t name_end = text.rfind(')');
  return name_end != std::string::npos && text[name_end + 2] != 'Z' && text[name_end + 2] != 'X';
}

bool all_end_within(const std::vector<int>& processes, milliseconds limit) {
  const auto give_up = steady_clock::now() + limit;
  for (const int process : processes) {
    while (is_running(process)) {
      if (steady_clock::now() > give_up) return false;
      std::this_thread::sleep_for(milliseconds(5));
    }
  }
  return true;
}

/// Rank 0's end of the "sum" program: one step.
Status step(GroupCoordinator& world) {
  std::string order = "go";
  QUIRE_RETURN_IF_ERROR(world.broadcast_object(order));
  Tensor x = rank_tensor(0, 1, 3000);
  QUIRE_RETURN_IF_ERROR(world.all_reduce(x));
  EXPECT_EQ(x.data<float>()[2999], sum_of_ranks(world.world_size(), 2999));
  return {};
}

TEST(RankLauncher, RanksComputeTogetherAndEndWhenTold) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    auto launcher = RankLauncher::start(launch(ranks, "sum"));
    ASSERT_TRUE(launcher.ok()) << launcher.error().message;
    ParallelState state;
    ASSERT_TRUE(state.init_distributed_environment((*launcher)->transport()).ok());
    for (int i = 0; i < 200; ++i) ASSERT_TRUE(step(state.world()).ok());
    EXPECT_EQ((*launcher)->states(), std::vector<RankState>(static_cast<size_t>(ranks), RankState::kAlive));
    std::string nothing;
    ASSERT_TRUE(state.world().broadcast_object(nothing).ok());
    const std::vector<int> processes = (*launcher)->processes();
    EXPECT_TRUE(all_end_within(processes, std::chrono::seconds(5)));
    std::this_thread::sleep_for(milliseconds(50));  // so that the launcher sees it before it is told
    (*launcher)->stop(std::chrono::seconds(5));
    EXPECT_TRUE(all_end_within(processes, milliseconds(0)));
    EXPECT_FALSE((*launcher)->failure().has_value());
  }
}

/// Runs steps until one fails, with `signal` sent to rank 1 early on; the time from there and the message.
std::pair<milliseconds, std::string> harm_rank_one(int signal) {
  std::string told;
  RankLauncherOptions options = launch(3, "sum");
  options.on_failure = [&](const RankFailure& failure) { told = failure.message; };
  auto launcher = RankLauncher::start(options);
  if (!launcher.ok()) return {milliseconds(0), launcher.error().message};
  ParallelState state;
  EXPECT_TRUE(state.init_distributed_environment((*launcher)->transport()).ok());
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(step(state.world()).ok());
  const std::vector<int> processes = (*launcher)->processes();
  kill(processes[0], signal);
  const auto begin = steady_clock::now();
  Status status;
  while (status.ok() && steady_clock::now() - begin < std::chrono::seconds(60)) {
    // Again, since whoever pauses and resumes all processes makes a stopped one go on.
    if (signal == SIGSTOP) kill(processes[0], signal);
    status = step(state.world());
  }
  if (status.ok()) return {milliseconds(0), "not seen"};
  const auto taken = std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin);
  EXPECT_EQ((*launcher)->states()[1], signal == SIGSTOP ? RankState::kStuck : RankState::kDead);
  EXPECT_EQ((*launcher)->failure()->rank, 1);
  EXPECT_NE(status.error().message.find((*launcher)->failure()->message), std::string::npos) << status.error().message;
  (*launcher)->stop();
  EXPECT_EQ(told, (*launcher)->failure()->message);
  EXPECT_TRUE(all_end_within(processes, milliseconds(0)));
  return {taken, told};
}

TEST(RankLauncher, AKilledRankIsSeenAndNamed) {
  const auto [taken, message] = harm_rank_one(SIGKILL);
  EXPECT_LT(taken.count(), 5000);
  EXPECT_NE(message.find("rank 1 (process "), std::string::npos) << message;
  EXPECT_NE(message.find("was killed by signal 9"), std::string::npos) << message;
}

TEST(RankLauncher, AStoppedRankIsSeenAndNamed) {
  const auto [taken, message] = harm_rank_one(SIGSTOP);
  EXPECT_LT(taken.count(), 10000);
  EXPECT_NE(message.find("has given no sign of life for 1500 ms"), std::string::npos) << message;
}

TEST(RankLauncher, ALongStepIsNoDeath) {
  RankLauncherOptions options = launch(2, "long step");
  options.stuck_after = milliseconds(600);
  auto launcher = RankLauncher::start(options);
  ASSERT_TRUE(launcher.ok()) << launcher.error().message;
  ParallelState state;
  ASSERT_TRUE(state.init_distributed_environment((*launcher)->transport()).ok());
  const Status status = state.world().barrier();
  EXPECT_TRUE(status.ok()) << status.error().message;
}

TEST(RankLauncher, ARankThatCannotStartEndsTheStartWithOneSentence) {
  const auto ended = RankLauncher::start(launch(3, "exit"));
  ASSERT_FALSE(ended.ok());
  EXPECT_NE(ended.error().message.find("ended with exit code 7 before it joined"), std::string::npos)
      << ended.error().message;

  RankLauncherOptions slow = launch(2, "hang");
  slow.start_timeout = milliseconds(200);
  const auto late = RankLauncher::start(slow);
  ASSERT_FALSE(late.ok());
  EXPECT_NE(late.error().message.find("has not joined within 200 ms"), std::string::npos) << late.error().message;

  RankLauncherOptions missing = launch(2, "sum");
  missing.program = "/nowhere/quire";
  const auto absent = RankLauncher::start(missing);
  ASSERT_FALSE(absent.ok());
  EXPECT_NE(absent.error().message.find("/nowhere/quire cannot be started"), std::string::npos);
}

TEST(RankLauncher, ARankOfAnotherBuildDoesNotJoin) {
  RankLauncherOptions options = launch(2, "sum");
  options.segment.build = "another";
  testing::internal::CaptureStderr();
  const auto refused = RankLauncher::start(options);
  const std::string words = testing::internal::GetCapturedStderr();
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(words.find("start all ranks from one build"), std::string::npos) << words;
}

TEST(RankLauncher, WhatARankSaysOfItsFailureReachesRankZero) {
  auto launcher = RankLauncher::start(launch(2, "fail"));
  std::string message;
  if (launcher.ok()) {
    ParallelState state;
    ASSERT_TRUE(state.init_distributed_environment((*launcher)->transport()).ok());
    const Status status = state.world().barrier();
    ASSERT_FALSE(status.ok());
    message = status.error().message;
  } else {  // it ended before the launcher saw that it had joined
    message = launcher.error().message;
  }
  EXPECT_NE(message.find("rank 1: the folder /models/none does not exist"), std::string::npos) << message;
}

/// A process that starts two ranks; this one is the parent of all that.
struct StartedRankZero {
  explicit StartedRankZero(const char* program) {
    int output[2], input[2];
    EXPECT_EQ(pipe2(output, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(input, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
      dup2(input[0], STDIN_FILENO);
      dup2(output[1], STDOUT_FILENO);
      setenv("QUIRE_TEST_PROGRAM", program, 1);
      execl("/proc/self/exe", "distributed_test", nullptr);
      _exit(127);
    }
    close(output[1]);
    close(input[0]);
    stop_input = input[1];
    FILE* const lines = fdopen(output[0], "r");
    for (int& process : processes) EXPECT_EQ(fscanf(lines, "%d", &process), 1);
    fclose(lines);
  }
  ~StartedRankZero() { close(stop_input); }

  pid_t pid;
  int stop_input;                    ///< rank 0 ends when it is closed
  std::vector<int> processes{0, 0};  ///< of the ranks
};

TEST(RankLauncher, NoRankOutlivesRankZero) {
  const StartedRankZero rank_zero("launch");
  for (const int process : rank_zero.processes) EXPECT_TRUE(is_running(process));
  kill(rank_zero.pid, SIGKILL);
  EXPECT_EQ(waitpid(rank_zero.pid, nullptr, 0), rank_zero.pid);
  EXPECT_TRUE(all_end_within(rank_zero.processes, std::chrono::seconds(5)));
}

TEST(RankLauncher, APauseOfAllRanksIsNoDeath) {
  StartedRankZero rank_zero("launch and step");
  std::vector<int> all = rank_zero.processes;
  all.insert(all.begin(), rank_zero.pid);
  for (const int process : all) kill(process, SIGSTOP);
  std::this_thread::sleep_for(milliseconds(2500));  // of which 1500 of one rank alone would be its end
  for (const int process : all) {
    kill(process, SIGCONT);
    std::this_thread::sleep_for(milliseconds(100));
  }
  std::this_thread::sleep_for(milliseconds(500));
  for (const int process : all) EXPECT_TRUE(is_running(process));
  close(std::exchange(rank_zero.stop_input, -1));
  int status = -1;
  EXPECT_EQ(waitpid(rank_zero.pid, &status, 0), rank_zero.pid);
  EXPECT_EQ(status, 0);
}

TEST(RankEnvironment, IsReadBackAndJudged) {
  EXPECT_FALSE(rank_environment()->has_value());
  RankEnvironment written;
  written.rank = 2;
  written.world_size = 3;
  written.segment_fd = 9;
  written.parent = 77;
  for (const std::string& variable : written.variables()) {
    EXPECT_TRUE(RankEnvironment::is_own(variable));
    const size_t equals = variable.find('=');
    setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
  }
  const auto read = rank_environment();
  ASSERT_TRUE(read.ok() && read->has_value());
  EXPECT_EQ((*read)->rank, 2);
  EXPECT_EQ((*read)->world_size, 3);
  EXPECT_EQ((*read)->segment_fd, 9);
  EXPECT_EQ((*read)->parent, 77);
  setenv("QUIRE_WORLD_SIZE", "3x", 1);
  const auto wrong = rank_environment();
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message.find("QUIRE_WORLD_SIZE"), std::string::npos);
  for (const std::string& variable : written.variables()) unsetenv(variable.substr(0, variable.find('=')).c_str());
  EXPECT_FALSE(RankEnvironment::is_own("QUIRE_RANKS=1"));
}

}  // namespace
}  // namespace quire

// The test program started again as a rank: QUIRE_TEST_PROGRAM names what it then does instead of running tests.
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>

#include "distributed/parallel_state.h"
#include "distributed/rank_launcher.h"
#include "distributed/rank_process.h"
#include "distributed/rank_threads.h"

namespace quire {
namespace {

int say(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  return 1;
}

/// Joins the ranks that the environment names and runs `fn` with the group of all.
int as_rank(const std::function<int(RankProcess&, GroupCoordinator&)>& fn) {
  auto environment = rank_environment();
  if (!environment.ok()) return say(environment.error().message);
  if (!environment->has_value()) return say("not started as a rank");
  auto process = RankProcess::join(**environment);
  if (!process.ok()) return say(process.error().message);
  ParallelState state;
  const Status status = state.init_distributed_environment((*process)->transport());
  return status.ok() ? fn(**process, state.world()) : say(status.error().message);
}

/// Sums until rank 0 says stop ("", by broadcast) or the group fails.
int sum_until_told(RankProcess& process, GroupCoordinator& world) {
  while (true) {
    std::string order;
    if (!world.broadcast_object(order).ok()) return 3;
    if (order.empty()) break;
    Tensor x = rank_tensor(process.rank(), 1, 3000);
    if (!world.all_reduce(x).ok()) return 3;
    if (x.data<float>()[2999] != sum_of_ranks(world.world_size(), 2999)) return 4;
  }
  process.leave();
  return 0;
}

/// Starts two ranks, prints their process ids, and waits to be killed.
int launch_and_wait() {
  RankLauncherOptions options;
  options.segment.ranks = 3;
  options.environment = {"QUIRE_TEST_PROGRAM=sum"};
  auto launcher = RankLauncher::start(options);
  if (!launcher.ok()) return say(launcher.error().message);
  for (const int process : (*launcher)->processes()) std::printf("%d\n", process);
  std::fflush(stdout);
  std::this_thread::sleep_for(std::chrono::seconds(60));
  return 0;
}

/// Starts two ranks, prints their process ids, and steps with them until standard input ends.
int launch_and_step() {
  RankLauncherOptions options;
  options.segment.ranks = 3;
  options.environment = {"QUIRE_TEST_PROGRAM=sum"};
  auto launcher = RankLauncher::start(options);
  if (!launcher.ok()) return say(launcher.error().message);
  ParallelState state;
  Status status = state.init_distributed_environment((*launcher)->transport());
  for (const int process : (*launcher)->processes()) std::printf("%d\n", process);
  std::fflush(stdout);
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  while (status.ok() && poll(&input, 1, 1) == 0) {
    std::string order = "go";
    status = state.world().broadcast_object(order);
    Tensor x = rank_tensor(0, 1, 3000);
    if (status.ok()) status = state.world().all_reduce(x);
  }
  return status.ok() ? 0 : say(status.error().message);
}

int run_program(const std::string& name) {
  if (name == "sum") return as_rank(sum_until_told);
  if (name == "exit") return 7;
  if (name == "hang") {
    std::this_thread::sleep_for(std::chrono::seconds(60));
    return 0;
  }
  if (name == "fail") {
    return as_rank([](RankProcess& process, GroupCoordinator&) {
      process.fail("the folder /models/none does not exist");
      return 1;
    });
  }
  if (name == "long step") {
    return as_rank([](RankProcess&, GroupCoordinator& world) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1200));
      return world.barrier().ok() ? 0 : 3;
    });
  }
  if (name == "launch") return launch_and_wait();
  if (name == "launch and step") return launch_and_step();
  return say("no program " + name);
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  if (const char* const program = std::getenv("QUIRE_TEST_PROGRAM")) return quire::run_program(program);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

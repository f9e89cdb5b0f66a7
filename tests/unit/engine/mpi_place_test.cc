// What launchers of MPI jobs tell a process of its place, and jobs that do not fit the model's division.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "engine/ranks/mpi_ranks.h"

namespace quire {
namespace {

class MpiPlace : public testing::Test {
 protected:
  MpiPlace() {
    for (const char* const name : {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "PMIX_RANK",
                                   "SLURM_STEP_NUM_TASKS"}) {
      unsetenv(name);
    }
  }
  ~MpiPlace() override {
    for (const auto& [name, value] : set_) unsetenv(name.c_str());
  }
  std::optional<ParallelRank> place(const std::map<std::string, std::string>& variables) {
    for (const auto& [name, value] : set_) unsetenv(name.c_str());
    set_ = variables;
    for (const auto& [name, value] : set_) setenv(name.c_str(), value.c_str(), 1);
    return mpi_place();
  }

 private:
  std::map<std::string, std::string> set_;
};

TEST_F(MpiPlace, IsReadFromEveryLaunchersVariables) {
  const std::map<std::string, std::string> launchers[] = {
      {{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "3"}},
      {{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}},
      {{"PMIX_RANK", "2"}, {"SLURM_STEP_NUM_TASKS", "3"}},
      // mpirun inside of a Slurm step.
      {{"OMPI_COMM_WORLD_RANK", "2"},
       {"OMPI_COMM_WORLD_SIZE", "3"},
       {"PMIX_RANK", "0"},
       {"SLURM_STEP_NUM_TASKS", "8"}}};
  for (const auto& variables : launchers) {
    const auto found = place(variables);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->rank, 2);
    EXPECT_EQ(found->size, 3);
  }
}

TEST_F(MpiPlace, IsNoneOutsideOfAJobAndInAJobOfOne) {
  EXPECT_FALSE(place({}).has_value());
  EXPECT_FALSE(place({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}).has_value());
  EXPECT_FALSE(place({{"SLURM_STEP_NUM_TASKS", "4"}}).has_value());
  EXPECT_FALSE(place({{"PMI_RANK", "x"}, {"PMI_SIZE", "3"}}).has_value());
}

TEST_F(MpiPlace, AJobMustHaveAsManyRanksAsTheModelIsDividedOver) {
  EngineConfig config;
  config.tensor_parallel_size = 2;
  config.pipeline_parallel_size = 2;
  EXPECT_TRUE(check_mpi_job(config, {0, 4}).ok());
  const Status other = check_mpi_job(config, {0, 3});
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("has 3 ranks"), std::string::npos);
  EXPECT_NE(other.error().message.find("make 4"), std::string::npos);
}

}  // namespace
}  // namespace quire

#include "tensor/workspace.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(Workspace, ScopesGiveBackWhatWasAllocatedSinceTheyBegan) {
  Workspace workspace;
  const Tensor kept = workspace.tensor(2, 3);
  void* first = nullptr;
  {
    const Workspace::Scope scope(workspace);
    first = workspace.tensor(4, 4).raw();
  }
  const Tensor again = workspace.tensor(4, 4);
  EXPECT_EQ(again.raw(), first);
  EXPECT_NE(again.raw(), kept.raw());
}

TEST(Workspace, TensorsDoNotOverlapWhenTheArenaGrows) {
  Workspace workspace;
  Tensor small = workspace.tensor(1, 16);
  std::fill_n(small.data<float>(), 16, 1.0f);
  Tensor large = workspace.tensor(1024, 4096);
  std::fill_n(large.data<float>(), large.size(), 2.0f);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(small.data<float>()[i], 1.0f);
}

TEST(Workspace, ASecondStepOfTheSameShapesAllocatesNothing) {
  Workspace workspace;
  const auto step = [&] {
    const Workspace::Scope scope(workspace);
    for (int i = 0; i < 10; ++i) (void)workspace.tensor(300, 1000);
  };
  step();
  const size_t capacity = workspace.capacity();
  for (int i = 0; i < 5; ++i) step();
  EXPECT_EQ(workspace.capacity(), capacity);
}

}  // namespace
}  // namespace quire

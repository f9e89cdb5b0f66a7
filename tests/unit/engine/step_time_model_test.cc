#include "engine/step_time_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace quire {
namespace {

constexpr int64_t kMost = 2048;
constexpr double kTarget = 0.1;

StepLoad decodes(int64_t rows, int64_t context_each = 500) { return {rows, rows * context_each, 0, 0}; }

StepLoad with_prefill(StepLoad load, int64_t tokens, int64_t start = 0) {
  load.add_prefill(tokens, start);
  return load;
}

/// A machine to learn: 10 ms for the weights, 1 ms a row, 0.5 ms a prefill token, and what attention costs.
struct Machine {
  double speed = 1;
  double operator()(const StepLoad& load) const {
    const double decoding = load.decode_rows > 0 ? 0.010 + 0.001 * static_cast<double>(load.decode_rows) +
                                                       1e-7 * static_cast<double>(load.decode_context)
                                                 : 0;
    const double prefill =
        load.prefill_tokens > 0 ? 0.0005 * static_cast<double>(load.prefill_tokens) + 1e-7 * load.prefill_context : 0;
    return (decoding + prefill) / speed;
  }
};

/// Streams that decode, and among them chunks of prompts.
template <typename Time>
void teach(StepTimeModel& model, const Time& time, int steps, std::mt19937& random) {
  for (int i = 0; i < steps; ++i) {
    StepLoad load = decodes(1 + static_cast<int64_t>(random() % 16), 100 + static_cast<int64_t>(random() % 900));
    if (i % 2 == 0)
      load.add_prefill(16 + static_cast<int64_t>(random() % 400), static_cast<int64_t>(random() % 4096));
    model.observe(load, time(load));
  }
}

TEST(StepTimeModel, AChunkAttendsToItselfAndToWhatCameBefore) {
  StepLoad load;
  load.add_prefill(3, 10);
  EXPECT_EQ(load.prefill_tokens, 3);
  EXPECT_EQ(load.prefill_context, 11 + 12 + 13);
}

TEST(StepTimeModel, StartsSaneWithoutAMeasurement) {
  const StepTimeModel model;
  const int64_t tokens = model.prefill_tokens_within(kTarget, decodes(8), 0, kMost);
  EXPECT_GE(tokens, 32);
  EXPECT_LE(tokens, 512);
}

TEST(StepTimeModel, LearnsTheMachine) {
  for (const double speed : {0.05, 1.0, 20.0}) {
    StepTimeModel model;
    std::mt19937 random(1);
    const Machine machine{speed};
    teach(model, machine, 200, random);
    for (const StepLoad& load :
         {decodes(4), decodes(16), with_prefill(decodes(8), 128, 1000), with_prefill(decodes(2), 300, 3000)})
      EXPECT_NEAR(model.predict(load) / machine(load), 1, 0.1) << speed << ", " << load.prefill_tokens;
  }
}

TEST(StepTimeModel, FillsTheTargetAndTakesLessAfterALongContext) {
  StepTimeModel model;
  std::mt19937 random(2);
  const Machine machine;
  teach(model, machine, 200, random);
  const int64_t early = model.prefill_tokens_within(kTarget, decodes(8), 0, kMost);
  const int64_t late = model.prefill_tokens_within(kTarget, decodes(8), 4096, kMost);
  EXPECT_LT(late, early);
  for (const auto& [tokens, start] : {std::pair<int64_t, int64_t>{early, 0}, {late, 4096}}) {
    EXPECT_EQ(tokens % 16, 0);
    EXPECT_NEAR(machine(with_prefill(decodes(8), tokens, start)), kTarget, 0.1 * kTarget);
  }
  EXPECT_EQ(model.prefill_tokens_within(kTarget, decodes(200), 0, kMost), 0) << "the decodes alone exceed the target";
  EXPECT_EQ(model.prefill_tokens_within(1000, decodes(8), 0, kMost), kMost);
}

TEST(StepTimeModel, WithstandsNoiseAndOutliers) {
  StepTimeModel model;
  std::mt19937 random(3);
  const Machine machine;
  std::normal_distribution<double> noise(1, 0.1);
  int count = 0;
  const auto time = [&](const StepLoad& load) {
    const double seconds = machine(load) * std::max(0.5, noise(random));
    return ++count % 20 == 0 ? seconds * 30 : seconds;
  };
  teach(model, time, 1000, random);
  const StepLoad load = with_prefill(decodes(8), 128, 1000);
  EXPECT_NEAR(model.predict(load) / machine(load), 1, 0.35);
}

TEST(StepTimeModel, FollowsAMachineThatBecomesSlower) {
  StepTimeModel model;
  std::mt19937 random(4);
  teach(model, Machine{1}, 500, random);
  const Machine slower{0.25};
  teach(model, slower, 200, random);
  const StepLoad load = with_prefill(decodes(8), 128, 1000);
  EXPECT_NEAR(model.predict(load) / slower(load), 1, 0.2);
}

TEST(StepTimeModel, LongDecodingDoesNotFadeWhatPrefillCosts) {
  StepTimeModel model;
  std::mt19937 random(5);
  const Machine machine;
  teach(model, machine, 200, random);
  for (int i = 0; i < 10000; ++i) model.observe(decodes(8), machine(decodes(8)));
  const StepLoad load = with_prefill(decodes(8), 128, 1000);
  EXPECT_NEAR(model.predict(load) / machine(load), 1, 0.05);
}

TEST(StepTimeModel, PassesOverTimesThatAreNone) {
  StepTimeModel model;
  const double before = model.predict(with_prefill(decodes(8), 128));
  for (const double seconds : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()})
    model.observe(with_prefill(decodes(8), 128), seconds);
  model.observe({}, 1.0);
  EXPECT_EQ(model.predict(with_prefill(decodes(8), 128)), before);
}

}  // namespace
}  // namespace quire

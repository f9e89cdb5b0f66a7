#include "layers/parameter_table.h"

#include <gtest/gtest.h>

#include "layers/layer_fixture.h"

namespace quire::testing {
namespace {

constexpr StackedName kGateAndUp[] = {{".gate_proj", ".gate_up_proj", "gate"}, {".up_proj", ".gate_up_proj", "up"}};

struct Table {
  Table() {
    parameters.add("mlp.gate_up_proj.weight", {8, 2}, {{"gate", {4, 2}}, {"up", {4, 2}}},
                   [this](const WeightSource&, const WeightInfo& weight, std::string_view piece) -> Status {
                     loaded.push_back(weight.name + "/" + std::string(piece));
                     return {};
                   });
  }
  Status load(const MemorySource& source, std::vector<std::string> ignored = {}) {
    LoadOptions options;
    options.stacked = kGateAndUp;
    options.ignored_suffixes = std::move(ignored);
    return parameters.load(source, options);
  }
  ParameterTable parameters;
  std::vector<std::string> loaded;
};

TEST(ParameterTable, TakesPiecesOrTheWhole) {
  MemorySource apart;
  apart.add_random("mlp.gate_proj.weight", {4, 2});
  apart.add_random("mlp.up_proj.weight", {4, 2});
  Table by_pieces;
  EXPECT_TRUE(by_pieces.load(apart).ok());
  EXPECT_EQ(by_pieces.loaded, (std::vector<std::string>{"mlp.gate_proj.weight/gate", "mlp.up_proj.weight/up"}));
  MemorySource fused;
  fused.add_random("mlp.gate_up_proj.weight", {8, 2});
  Table whole;
  EXPECT_TRUE(whole.load(fused).ok());
  EXPECT_EQ(whole.loaded, (std::vector<std::string>{"mlp.gate_up_proj.weight/"}));
}

TEST(ParameterTable, NamesAMissingPieceAsTheCheckpointWould) {
  MemorySource source;
  source.add_random("mlp.gate_proj.weight", {4, 2});
  Table table;
  const Status status = table.load(source);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("missing: mlp.up_proj.weight"), std::string::npos) << status.error().message;
}

TEST(ParameterTable, NamesUnexpectedTensorsUnlessTheyAreIgnored) {
  MemorySource source;
  source.add_random("mlp.gate_up_proj.weight", {8, 2});
  source.add_random("mlp.rotary.inv_freq", {3});
  source.add_random("mlp.gate_projector.weight", {4, 2});
  Table table;
  const Status status = table.load(source, {".inv_freq"});
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("mlp.gate_projector.weight"), std::string::npos) << status.error().message;
  EXPECT_EQ(status.error().message.find("inv_freq"), std::string::npos);
}

TEST(ParameterTable, NamesAMisshapenTensorWithBothShapes) {
  MemorySource source;
  source.add_random("mlp.gate_proj.weight", {4, 3});
  Table table;
  const Status status = table.load(source);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("[4, 3]"), std::string::npos) << status.error().message;
  EXPECT_NE(status.error().message.find("[4, 2]"), std::string::npos);
}

TEST(ParameterTable, NamesEverythingThatIsWrongBeforeItLoadsAnything) {
  MemorySource source;
  source.add_random("mlp.gate_proj.weight", {4, 3});
  source.add_random("mlp.extra.weight", {4, 2});
  Table table;
  const Status status = table.load(source);
  ASSERT_FALSE(status.ok());
  for (const char* part :
       {"mlp.gate_proj.weight has shape [4, 3]", "missing: mlp.up_proj.weight", "mlp.extra.weight"}) {
    EXPECT_NE(status.error().message.find(part), std::string::npos) << status.error().message;
  }
  EXPECT_TRUE(table.loaded.empty());
}

TEST(ParameterTable, PassesOverWhatTheExpressionMatches) {
  MemorySource source;
  source.add_random("mlp.gate_up_proj.weight", {8, 2});
  source.add_random("vision.tower.weight", {3});
  source.add_random("audio.tower.weight", {3});
  Table table;
  ASSERT_TRUE(table.parameters.ignore_unexpected("^vision\\.").ok());
  const Status status = table.load(source);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("audio.tower.weight"), std::string::npos) << status.error().message;
  EXPECT_EQ(status.error().message.find("vision"), std::string::npos);
  ASSERT_TRUE(table.parameters.ignore_unexpected("tower").ok());
  EXPECT_TRUE(table.load(source).ok());
  EXPECT_EQ(table.loaded, (std::vector<std::string>{"mlp.gate_up_proj.weight/"}));
  EXPECT_FALSE(table.parameters.ignore_unexpected("(").ok());
}

}  // namespace
}  // namespace quire::testing

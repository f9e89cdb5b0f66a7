// Where an engine's time goes between two moments: its thread's parts, and with several ranks what each of them does.
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"

namespace quire::cli {

class EngineProfile {
 public:
  /// The first moment. Ranks are asked only `with_ranks`.
  EngineProfile(Engine& engine, bool with_ranks);
  /// Shares since then, a line for the engine's thread and, where ranks were asked, one for each: computing, in
  /// operations with other ranks, waiting for those; and last the mean of the two latter. No ranks where they were
  /// started again meanwhile.
  std::string report() const;

 private:
  Engine& engine_;
  bool with_ranks_;
  EngineStats stats_;
  std::vector<RankTimes> ranks_;
};

}  // namespace quire::cli

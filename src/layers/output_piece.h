// The named pieces that a layer's output features are made of, and which of their rows a rank holds.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/api.h"
#include "distributed/partition.h"

namespace quire {

/// One named piece of a layer's output as a checkpoint stores it, and the share of it that this rank holds.
struct OutputPiece {
  std::string id;    ///< "" when the layer has one piece
  int64_t size = 0;  ///< output features in the checkpoint
  Range local;       ///< of which this rank holds these
};

/// A run of checkpoint rows and the local row where it goes.
struct RowRun {
  int64_t source = 0;
  int64_t local = 0;
  int64_t count = 0;
};

QUIRE_API int64_t total_features(std::span<const OutputPiece> pieces);
QUIRE_API int64_t local_features(std::span<const OutputPiece> pieces);

/// The runs that a tensor holding `piece` (all pieces, one after the other, when empty) gives to this rank.
QUIRE_API std::vector<RowRun> runs_of(std::span<const OutputPiece> pieces, std::string_view piece);

}  // namespace quire

#include "layers/output_piece.h"

namespace quire {

int64_t total_features(std::span<const OutputPiece> pieces) {
  int64_t total = 0;
  for (const OutputPiece& piece : pieces) total += piece.size;
  return total;
}

int64_t local_features(std::span<const OutputPiece> pieces) {
  int64_t total = 0;
  for (const OutputPiece& piece : pieces) total += piece.local.size();
  return total;
}

std::vector<RowRun> runs_of(std::span<const OutputPiece> pieces, std::string_view piece) {
  std::vector<RowRun> runs;
  int64_t source = 0;
  int64_t local = 0;
  for (const OutputPiece& part : pieces) {
    if (piece.empty() || piece == part.id) {
      if (part.local.size() > 0) runs.push_back({source + part.local.begin, local, part.local.size()});
      source += part.size;
    }
    local += part.local.size();
  }
  return runs;
}

}  // namespace quire

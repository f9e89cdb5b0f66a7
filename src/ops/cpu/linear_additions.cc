#include "ops/cpu/linear_additions.h"

#include <algorithm>

#include "ops/cpu/workspace_span.h"

namespace quire::ops::cpu {
namespace {

struct Offset {
  int64_t row;
  int64_t column;
};

Offset offset_in(const LinearPart& part, const Tensor& out) {
  const int64_t floats = part.out.data<float>() - out.data<float>();
  return {floats / out.row_stride(), floats % out.row_stride()};
}

}  // namespace

bool LinearAdditions::fits(const LinearPart& part, const Tensor& out) {
  return part.accumulate && offset_in(part, out).column % kPanelChannels == 0;
}

LinearAdditions::LinearAdditions(OpContext& context, std::span<const LinearPart> parts, const Tensor& out) {
  if (parts.empty()) return;
  Workspace& workspace = *context.workspace;
  calls_ = workspace_span<LinearPartCall>(workspace, std::ssize(parts));
  places_ = workspace_span<Place>(workspace, std::ssize(parts));
  for (size_t i = 0; i < parts.size(); ++i) {
    const Offset offset = offset_in(parts[i], out);
    calls_[i] = call_of(parts[i]);
    places_[i] = {offset.row, offset.column / kPanelChannels};
  }
  prepared_ = workspace.tensor(context.pool->size(), prepared_floats(calls_));
}

void LinearAdditions::add(int64_t first_row, int64_t last_row, int64_t first_panel, int64_t last_panel,
                          int worker) const {
  for (size_t i = 0; i < calls_.size(); ++i) {
    const LinearPartCall& part = calls_[i];
    const Place& place = places_[i];
    const int64_t begin = std::max(first_panel - place.first_panel, int64_t{0});
    const int64_t end = std::min(last_panel - place.first_panel, part.panels());
    const int64_t first = std::max(first_row - place.first_row, int64_t{0});
    const int64_t rows = std::min(last_row - place.first_row, part.call.rows) - first;
    if (begin >= end || rows <= 0) continue;
    const int64_t blocks = part.row_blocks(rows);
    for (int64_t block = 0; block < blocks; ++block) {
      part.run(first + tile_begin(rows, blocks, block), first + tile_begin(rows, blocks, block + 1), begin, end,
               prepared_.row<float>(worker));
    }
  }
}

}  // namespace quire::ops::cpu

#include "engine/stage_link.h"

#include <utility>

#include "distributed/parallel_state.h"

namespace quire {

StageLink::StageLink(OpContext& context, ParallelRank stage, ParallelRank tensor_parallel, std::vector<int64_t> widths,
                     int64_t vocab_size)
    : context_(context),
      stage_(stage),
      samples_(tensor_parallel.rank == 0),
      widths_(std::move(widths)),
      vocab_size_(vocab_size) {}

void StageLink::receive(ForwardBatch& batch) const {
  batch.intermediate.clear();
  if (stage_.rank == 0) return;
  for (const int64_t width : widths_) {
    batch.intermediate.push_back(context_.workspace->tensor(batch.tokens(), width));
    if (!context_.failure) context_.keep(get_pp_group().receive(batch.intermediate.back(), stage_.rank - 1));
  }
}

void StageLink::send(const ForwardBatch& batch) const {
  if (is_last()) return;
  QUIRE_CHECK(batch.intermediate.size() == widths_.size());
  for (const Tensor& x : batch.intermediate) {
    if (!context_.failure) context_.keep(get_pp_group().send(x, stage_.rank + 1));
  }
}

Tensor StageLink::pass_logits(const Tensor& logits, int64_t rows) const {
  if (stage_.size == 1) return logits;
  if (context_.failure || !samples_) return {};
  if (is_last()) {
    context_.keep(get_pp_group().send(logits, 0));
    return {};
  }
  if (stage_.rank != 0) return {};
  Tensor received = context_.workspace->tensor(rows, vocab_size_);
  context_.keep(get_pp_group().receive(received, stage_.size - 1));
  return context_.failure ? Tensor() : received;
}

}  // namespace quire

// How a rank's step hangs together with those of the other pipeline stages. With one stage there is nothing to do.
#pragma once

#include <cstdint>
#include <vector>

#include "distributed/partition.h"
#include "layers/forward_batch.h"
#include "tensor/op_context.h"

namespace quire {

/// Uses the calling thread's pipeline parallel group. Errors go to OpContext::failure.
class StageLink {
 public:
  /// `widths` are Model::intermediate_widths().
  StageLink(OpContext& context, ParallelRank stage, ParallelRank tensor_parallel, std::vector<int64_t> widths,
            int64_t vocab_size);

  int64_t vocab_size() const { return vocab_size_; }
  bool is_last() const { return stage_.rank == stage_.size - 1; }
  /// Before the forward pass: what the stage before has left, in the workspace.
  void receive(ForwardBatch& batch) const;
  /// After the forward pass: what this stage has left, to the next.
  void send(const ForwardBatch& batch) const;
  /// Brings the last stage's logits of so many rows to the first, whose rank 0 gets them; elsewhere the result is
  /// undefined. Called by all ranks.
  Tensor pass_logits(const Tensor& logits, int64_t rows) const;

 private:
  OpContext& context_;
  ParallelRank stage_;
  bool samples_;  ///< this rank or the one that it passes logits to
  std::vector<int64_t> widths_;
  int64_t vocab_size_;
};

}  // namespace quire

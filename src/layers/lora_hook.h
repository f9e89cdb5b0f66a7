// Where an adapter's share of a linear's output is added.
#pragma once

#include "layers/forward_batch.h"
#include "tensor/tensor.h"

namespace quire {

/// Set on a layer by whoever manages adapters; called only when the batch has rows of an adapter.
class LoraHook {
 public:
  virtual ~LoraHook() = default;
  /// Adds each adapter segment's delta to out. x is the layer's input, out its output before any reduction over ranks;
  /// their rows are the batch's rows from `first_row` on.
  virtual void apply(ForwardBatch& batch, int64_t first_row, const Tensor& x, Tensor& out) const = 0;
};

}  // namespace quire

// Where an adapter's share of a layer's output is added.
#pragma once

#include <cstdint>
#include <span>

#include "base/api.h"
#include "layers/forward_batch.h"
#include "tensor/op_context.h"
#include "tensor/tensor.h"

namespace quire {

/// Set on a layer by whoever manages adapters; called by the thread that runs the step, and only when the rows are not
/// all the base model's.
class QUIRE_API LoraHook {
 public:
  virtual ~LoraHook() = default;
  /// Adds to out what each segment's adapter changes. x is the layer's input (of an embedding the token ids, [1, rows]
  /// int32), out its output before any reduction over ranks. Their rows are those from `first_row` on of the rows that
  /// the segments count.
  virtual void apply(OpContext& context, std::span<const AdapterSegment> segments, int64_t first_row, const Tensor& x,
                     Tensor& out) = 0;
};

}  // namespace quire

// Where an adapter's share of a layer's output is added.
#pragma once

#include <cstdint>
#include <span>

#include "base/api.h"
#include "layers/forward_batch.h"
#include "ops/grouped_linear.h"
#include "tensor/op_context.h"
#include "tensor/tensor.h"

namespace quire {

/// Set on a layer by whoever manages adapters; called by the thread that runs the step, and only when the rows are not
/// all the base model's.
class QUIRE_API LoraHook {
 public:
  virtual ~LoraHook() = default;
  /// Changes out as each segment's adapter has it. x is the layer's input (of an embedding the token ids, [1, rows]
  /// int32), out its output before any reduction over ranks. Their rows are those from `first_row` on of the rows that
  /// the segments count.
  virtual void apply(OpContext& context, std::span<const AdapterSegment> segments, int64_t first_row, const Tensor& x,
                     Tensor& out) = 0;

  /// The same of a linear in two steps around its own product. prepare() computes what adapters take from x; what it
  /// returns is to be added to out after the product, before finish(). It stays valid until then, as long as nothing
  /// that the workspace gave since is taken back.
  virtual std::span<const ops::LinearPart> prepare(OpContext& context, std::span<const AdapterSegment> segments,
                                                   int64_t first_row, const Tensor& x, Tensor& out) = 0;
  virtual void finish(OpContext& context, std::span<const AdapterSegment> segments, int64_t first_row, const Tensor& x,
                      Tensor& out) = 0;
};

/// The vectors that an adapter has in place of a norm's own, [1, size] float32; nullptr for those that it leaves.
struct NormVectors {
  const Tensor* weight = nullptr;
  const Tensor* bias = nullptr;
};

/// The same for a norm: which of the adapters in the batch normalise with vectors of their own.
class QUIRE_API NormLoraHook {
 public:
  virtual ~NormLoraHook() = default;
  virtual NormVectors vectors_of(const LoraAdapter& adapter) const = 0;
};

}  // namespace quire

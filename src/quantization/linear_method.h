// How a linear's weight is stored, packed and multiplied. A quantization scheme is one implementation of these two
// classes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/api.h"
#include "base/huge_page_arena.h"
#include "base/result.h"
#include "ops/grouped_linear.h"
#include "ops/linear.h"
#include "tensor/op_context.h"
#include "tensor/tensor.h"

namespace quire {

/// One rank's weight [out_features, in_features] in a method's own form.
class QUIRE_API LinearWeight {
 public:
  LinearWeight(int64_t out_features, int64_t in_features) : out_features_(out_features), in_features_(in_features) {}
  virtual ~LinearWeight() = default;

  int64_t out_features() const { return out_features_; }
  int64_t in_features() const { return in_features_; }

  /// Takes a piece of the checkpoint's weight: `source`'s rows become output channels from `first_row` on, its columns
  /// input features from 0 on; it spans all in_features. Called from several threads for disjoint rows, in units of
  /// row_unit().
  virtual void load_rows(OpContext& context, const MatrixView& source, int64_t first_row) = 0;
  /// Rows that one load_rows call must not share with another that runs at the same time.
  virtual int64_t row_unit() const = 0;

  /// out = x * Wᵀ + bias. x: [rows, in_features], out: [rows, out_features], float32; bias may be undefined.
  virtual void apply(OpContext& context, const Tensor& x, const Tensor& bias, Tensor& out) const = 0;

  /// apply(), and then what `additions` add to out, as ops::grouped_linear() would: adapters. A method overrides it
  /// where it can add while the output is still in a cache.
  virtual void apply(OpContext& context, const Tensor& x, const Tensor& bias, Tensor& out,
                     std::span<const ops::LinearPart> additions) const;

  /// out[i] = output channel ids[i]'s weights; for embeddings whose matrix is also the output head's.
  virtual void gather(OpContext& context, const Tensor& ids, Tensor& out) const = 0;

 private:
  int64_t out_features_;
  int64_t in_features_;
};

/// Makes weights of one scheme.
class QUIRE_API LinearMethod {
 public:
  virtual ~LinearMethod() = default;
  virtual std::string_view name() const = 0;
  /// A weight whose memory comes from `arena`, which must outlive it. Rows that are never loaded count as zero.
  virtual std::unique_ptr<LinearWeight> create_weight(OpContext& context, HugePageArena& arena, int64_t out_features,
                                                      int64_t in_features) const = 0;
};

/// Weights kept in a float type (float32, bfloat16 or float16) and widened to float32 as they are multiplied.
QUIRE_API std::unique_ptr<LinearMethod> make_unquantized_linear_method(DType storage);

}  // namespace quire

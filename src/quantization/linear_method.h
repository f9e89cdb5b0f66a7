// How a linear's weight is stored, packed and multiplied. A quantization scheme is one implementation of these two
// classes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/api.h"
#include "base/huge_page_arena.h"
#include "base/result.h"
#include "ops/grouped_linear.h"
#include "ops/linear.h"
#include "tensor/op_context.h"
#include "tensor/tensor.h"

namespace quire {

struct GgmlTypeInfo;

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

  /// Output channels [first_row, first_row + rows) come next: a tensor's columns from `first_column` on, which a file
  /// stores in the block format `stored` (nullptr: as float values). True: they are to be given by load_stored_row(),
  /// not by load_rows().
  virtual bool begin_rows(OpContext&, [[maybe_unused]] const GgmlTypeInfo* stored,
                          [[maybe_unused]] int64_t first_column, [[maybe_unused]] int64_t first_row,
                          [[maybe_unused]] int64_t rows) {
    return false;
  }
  /// One whole row of the file for output channel `row`. Called from several threads for different rows.
  virtual void load_stored_row([[maybe_unused]] const std::byte* stored, [[maybe_unused]] int64_t row) {}

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
  /// What its weights became so far, for the log: "int8 106.2 MB".
  virtual std::string summary() const { return std::string(name()); }
  /// A weight whose memory comes from `arena`, which must outlive it. Rows that are never loaded count as zero.
  virtual std::unique_ptr<LinearWeight> create_weight(OpContext& context, HugePageArena& arena, int64_t out_features,
                                                      int64_t in_features) const = 0;
};

/// Weights kept in a float type (float32, bfloat16 or float16) and widened to float32 as they are multiplied.
QUIRE_API std::unique_ptr<LinearMethod> make_unquantized_linear_method(DType storage);

/// Weights that checkpoints of any kind are rounded to as they load, and that stay so: "int8" (a scale for each output
/// channel; rows are rounded to int8 with a scale each) or "int4" (a scale and a minimum for each 32 input features;
/// rows are rounded to int8 with a scale for each 32). Matrices that are too wide for it are kept as `storage`. nullptr
/// for other names.
QUIRE_API std::unique_ptr<LinearMethod> make_rounding_linear_method(std::string_view name, DType storage);

/// Weights multiplied as a GGUF file stores them, where its type is Q4_0, Q4_1, Q8_0, Q4_K or Q6_K and a rank's columns
/// are whole blocks; others are kept as `storage`.
QUIRE_API std::unique_ptr<LinearMethod> make_gguf_linear_method(DType storage);

/// Whether make_gguf_linear_method() multiplies that type as it is stored.
QUIRE_API bool multiplies_as_stored(const GgmlTypeInfo& type);

}  // namespace quire

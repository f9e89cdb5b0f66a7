// Weights in a float storage type, packed into panels.
#include "ops/linear.h"
#include "quantization/linear_method.h"
#include "quantization/weight_tally.h"

namespace quire {

namespace {

class UnquantizedWeight final : public LinearWeight {
 public:
  UnquantizedWeight(OpContext& context, ops::PackedMatrix matrix)
      : LinearWeight(matrix.out_features, matrix.in_features), matrix_(std::move(matrix)) {
    ops::zero_padding(context, matrix_);
  }

  void load_rows(OpContext& context, const MatrixView& source, int64_t first_row) override {
    ops::pack_rows(context, source, first_row, 0, matrix_);
  }
  int64_t row_unit() const override { return ops::PackedMatrix::kPanelWidth; }

  void apply(OpContext& context, const Tensor& x, const Tensor& bias, Tensor& out) const override {
    ops::linear(context, x, matrix_, bias, out);
  }
  void apply(OpContext& context, const Tensor& x, const Tensor& bias, Tensor& out,
             std::span<const ops::LinearPart> additions) const override {
    ops::linear(context, x, matrix_, bias, out, additions);
  }
  void gather(OpContext& context, const Tensor& ids, Tensor& out) const override {
    ops::gather_rows(context, matrix_, ids, out);
  }

 private:
  ops::PackedMatrix matrix_;
};

class UnquantizedLinearMethod final : public LinearMethod {
 public:
  explicit UnquantizedLinearMethod(DType storage) : storage_(storage) {}
  std::string_view name() const override { return dtype_name(storage_); }
  std::string summary() const override { return tally_.text(); }
  std::unique_ptr<LinearWeight> create_weight(OpContext& context, HugePageArena& arena, int64_t out_features,
                                              int64_t in_features) const override {
    tally_.add(std::string(name()), ops::PackedMatrix::bytes(out_features, in_features, storage_));
    return std::make_unique<UnquantizedWeight>(context,
                                               ops::make_packed_matrix(arena, out_features, in_features, storage_));
  }

 private:
  DType storage_;
  mutable WeightTally tally_;
};

}  // namespace

std::unique_ptr<LinearMethod> make_unquantized_linear_method(DType storage) {
  return std::make_unique<UnquantizedLinearMethod>(storage);
}

}  // namespace quire

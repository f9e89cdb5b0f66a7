// int8 and int4: weights rounded as they load.
#include "quantization/linear_method.h"
#include "quantization/round_channel.h"
#include "quantization/weight_tally.h"
#include "tensor/convert.h"

namespace quire {
namespace {

using ops::QuantFormat;

class RoundedWeight final : public LinearWeight {
 public:
  explicit RoundedWeight(ops::QuantizedMatrix matrix)
      : LinearWeight(matrix.out_features, matrix.in_features), matrix_(std::move(matrix)) {}

  void load_rows(OpContext& context, const MatrixView& source, int64_t first_row) override {
    context.pool->parallel_for(source.rows, [&](int64_t row, int) {
      std::vector<float> values(static_cast<size_t>(source.cols));
      row_to_float(source, row, values.data());
      const bool eight = matrix_.format == QuantFormat::kInt8;
      ops::pack_channel(eight ? round_to_int8(values) : round_to_int4(values), first_row + row, matrix_);
    });
  }
  int64_t row_unit() const override { return 1; }

  void apply(OpContext& context, const Tensor& x, const Tensor& bias, Tensor& out) const override {
    apply(context, x, bias, out, {});
  }
  void apply(OpContext& context, const Tensor& x, const Tensor& bias, Tensor& out,
             std::span<const ops::LinearPart> additions) const override {
    const ops::QuantizedPart part{&matrix_, 0};
    ops::quantized_linear(context, x, {&part, 1}, bias, out, additions);
  }
  void gather(OpContext& context, const Tensor& ids, Tensor& out) const override {
    const ops::QuantizedPart part{&matrix_, 0};
    ops::gather_channels(context, {&part, 1}, ids, out);
  }

 private:
  ops::QuantizedMatrix matrix_;
};

class RoundingLinearMethod final : public LinearMethod {
 public:
  RoundingLinearMethod(std::string_view name, QuantFormat format, DType storage)
      : name_(name), format_(format), storage_(storage), unquantized_(make_unquantized_linear_method(storage)) {}
  std::string_view name() const override { return name_; }
  std::string summary() const override { return tally_.text(); }
  std::unique_ptr<LinearWeight> create_weight(OpContext& context, HugePageArena& arena, int64_t out_features,
                                              int64_t in_features) const override {
    if (in_features > ops::QuantizedMatrix::kMostFeatures) {
      tally_.add(std::string(dtype_name(storage_)) + " (too wide for " + name_ + ")",
                 ops::PackedMatrix::bytes(out_features, in_features, storage_));
      return unquantized_->create_weight(context, arena, out_features, in_features);
    }
    tally_.add(name_, ops::QuantizedMatrix::bytes(out_features, in_features, format_));
    return std::make_unique<RoundedWeight>(
        ops::make_quantized_matrix(context, arena, out_features, in_features, format_));
  }

 private:
  std::string name_;
  QuantFormat format_;
  DType storage_;
  std::unique_ptr<LinearMethod> unquantized_;
  mutable WeightTally tally_;
};

}  // namespace

std::unique_ptr<LinearMethod> make_rounding_linear_method(std::string_view name, DType storage) {
  if (name == "int8") return std::make_unique<RoundingLinearMethod>(name, QuantFormat::kInt8, storage);
  if (name == "int4") return std::make_unique<RoundingLinearMethod>(name, QuantFormat::kQ4Min, storage);
  return nullptr;
}

}  // namespace quire

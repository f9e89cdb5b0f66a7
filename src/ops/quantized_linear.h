// Multiplication with a weight that stays compressed: rows are rounded to bytes, products of bytes are summed exactly.
//
// W[n, k] = scale * (q[n, k] - offset), or scale * q[n, k] + minimum, with a scale for each output channel or for each
// group of 32 input features of it. Rows get a scale for each row (format kInt8) or for each group of 32 features (all
// others): x is about s * b, |b| <= 127, s = max |x| / 127, b rounded to nearest even. The last group is filled up with
// zeros. A row's result does not depend on the other rows.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/api.h"
#include "base/huge_page_arena.h"
#include "ops/grouped_linear.h"
#include "ops/quant_format.h"
#include "tensor/op_context.h"
#include "tensor/tensor.h"

namespace quire::ops {

/// One output channel's weights, as plainly as a format's values go: what is packed, and unpacked for embeddings. in()
/// is the number of input features, filled up to whole groups; a super-block is 8 groups.
struct QuantizedChannel {
  std::vector<uint8_t> quants;        ///< [in]
  float scale = 0;                    ///< kInt8
  std::vector<uint16_t> scales;       ///< float16: for each group (kQ8, kQ4, kQ4Min) or super-block (kQ4K, kQ6K)
  std::vector<uint16_t> minimums;     ///< float16, in the same way (kQ4Min, kQ4K)
  std::vector<uint8_t> sub_scales;    ///< for each group (kQ4K), or for each half of a group, signed (kQ6K)
  std::vector<uint8_t> sub_minimums;  ///< for each group (kQ4K)

  /// Room for `in_features` of a format, all zero weights.
  static QUIRE_API QuantizedChannel zero(QuantFormat format, int64_t in_features);
};

/// Compressed weights of `out_features` channels in panels.
struct QuantizedMatrix {
  /// Above it a sum over kInt8's features could leave 32 bits.
  static constexpr int64_t kMostFeatures = 131072;
  static constexpr int64_t kPanelWidth = PackedMatrix::kPanelWidth;

  int64_t out_features = 0;
  int64_t in_features = 0;
  QuantFormat format = QuantFormat::kInt8;
  Tensor panels;  ///< [panels, bytes of a panel] kUInt8

  int64_t panel_count() const { return (out_features + kPanelWidth - 1) / kPanelWidth; }
  static QUIRE_API size_t bytes(int64_t out_features, int64_t in_features, QuantFormat format);
};

/// Channels of an output from column `first_column` on.
struct QuantizedPart {
  const QuantizedMatrix* matrix = nullptr;
  int64_t first_column = 0;
};

/// A matrix of zeros with memory from `arena`, which must outlive it.
QUIRE_API QuantizedMatrix make_quantized_matrix(OpContext& context, HugePageArena& arena, int64_t out_features,
                                                int64_t in_features, QuantFormat format);

/// Stores one channel. Different channels may be stored at the same time.
QUIRE_API void pack_channel(const QuantizedChannel& channel, int64_t index, QuantizedMatrix& matrix);

/// The channel as it was stored.
QUIRE_API QuantizedChannel unpack_channel(const QuantizedMatrix& matrix, int64_t index);

/// The weights that a channel stands for, `count` of them.
QUIRE_API void dequantize_channel(const QuantizedChannel& channel, QuantFormat format, int64_t count, float* out);

/// out[r, first_column + n] = x[r] * W[n] + bias for all channels n of all parts, whose columns must not overlap; then
/// what `additions` add, as ops::grouped_linear() would. All parts have x's features, and all or none are kInt8. x:
/// [rows, in_features] float32; bias: [1, out's columns] float32 or undefined; out: float32.
QUIRE_API void quantized_linear(OpContext& context, const Tensor& x, std::span<const QuantizedPart> parts,
                                const Tensor& bias, Tensor& out, std::span<const LinearPart> additions);

/// out[i, :] = the dequantized channel ids[i] of the output that the parts make up; zeros for ids that none has. ids:
/// [1, n] int32.
QUIRE_API void gather_channels(OpContext& context, std::span<const QuantizedPart> parts, const Tensor& ids,
                               Tensor& out);

}  // namespace quire::ops

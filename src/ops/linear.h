// Multiplication with a weight that was packed once at load.
//
// A weight [out_features, in_features] is stored as panels of kPanelWidth output channels: panel p holds, for each
// input feature k in turn, the kPanelWidth weights of channels p*kPanelWidth ... side by side. One SIMD lane is one
// output channel, and k is summed in ascending order from 0 inside that lane, whatever the number of rows: so a row's
// result does not depend on what else is multiplied with it. The last panel is filled up with zeros.
#pragma once

#include <cstdint>

#include "base/api.h"
#include "base/huge_page_arena.h"
#include "base/result.h"
#include "tensor/op_context.h"
#include "tensor/tensor.h"

namespace quire::ops {

/// A weight in panels. `panels` is [ceil(out_features / panel_width), in_features * panel_width] of `dtype`.
struct PackedMatrix {
  static constexpr int64_t kPanelWidth = 16;

  int64_t out_features = 0;
  int64_t in_features = 0;
  DType dtype = DType::kFloat32;  ///< kFloat32, kBFloat16 or kFloat16
  Tensor panels;

  int64_t panel_count() const { return (out_features + kPanelWidth - 1) / kPanelWidth; }
  /// Bytes that a matrix of these sizes takes.
  static size_t bytes(int64_t out_features, int64_t in_features, DType dtype);
};

/// A matrix with memory from `arena`, which must outlive it; its weights are still to be packed.
QUIRE_API PackedMatrix make_packed_matrix(HugePageArena& arena, int64_t out_features, int64_t in_features, DType dtype);

/// Packs `source` (rows are output channels; converted to the matrix's dtype, round to nearest even) as output channels
/// [first_row, first_row + source.rows) and input features [first_col, first_col + source.cols). Every element must be
/// packed exactly once; padding channels are zeroed when their panel's last channel is packed or by zero_padding().
QUIRE_API void pack_rows(OpContext& context, const MatrixView& source, int64_t first_row, int64_t first_col,
                         PackedMatrix& matrix);

/// Zeroes the lanes beyond out_features in the last panel. Call once, before or after packing.
QUIRE_API void zero_padding(OpContext& context, PackedMatrix& matrix);

/// out[r, n] = sum over k ascending of x[r, k] * W[n, k], plus bias[n]. x: [rows, in_features] float32; bias: [1,
/// out_features] float32 or undefined; out: [rows, out_features] float32. x and out may have row strides; they must not
/// overlap.
QUIRE_API void linear(OpContext& context, const Tensor& x, const PackedMatrix& weight, const Tensor& bias, Tensor& out);

/// out[i, :] = row ids[i] of the packed table, widened to float32. ids: [1, n] int32, each in [0, out_features); an id
/// outside gives zeros.
QUIRE_API void gather_rows(OpContext& context, const PackedMatrix& table, const Tensor& ids, Tensor& out);

}  // namespace quire::ops

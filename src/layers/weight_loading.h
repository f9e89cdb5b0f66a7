// Copying rows of a checkpoint tensor into a LinearWeight or a float32 vector, on all threads of the pool.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/api.h"
#include "base/result.h"
#include "checkpoint/weight_source.h"
#include "distributed/partition.h"
#include "layers/output_piece.h"
#include "quantization/linear_method.h"
#include "tensor/op_context.h"

namespace quire {

/// Reads `runs` of `weight`, columns `input`, into `target`.
QUIRE_API Status load_matrix(OpContext& context, const WeightSource& source, const WeightInfo& weight,
                             std::span<const RowRun> runs, Range input, LinearWeight& target);

/// All values of a small tensor (a bias, a norm's weight) in order: rounded to `storage` as every parameter is, then
/// widened to float32.
QUIRE_API Result<std::vector<float>> load_vector(const WeightSource& source, const WeightInfo& weight, DType storage);

}  // namespace quire

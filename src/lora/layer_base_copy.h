// A copy of a base weight that an adapter carries, held against a layer of a loaded model.
#pragma once

#include <string>

#include "base/result.h"
#include "checkpoint/weight_source.h"
#include "lora/lora_fit.h"
#include "tensor/op_context.h"

namespace quire {

/// Holds the copy that a module carries, if any, against this rank's share of its layer: some rows of all its parts.
Status check_base_copy(OpContext& context, const std::string& where, const WeightSource& tensors,
                       const AdaptableLayer& layer, const LoraFit& fit);

}  // namespace quire

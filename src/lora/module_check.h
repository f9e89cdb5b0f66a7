// Whether what an adapter has for one module fits what the base has there: the one place that says which kinds and
// shapes go together, for a loaded model and for a checkpoint's files alike.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "layers/adaptable_layers.h"
#include "lora/adapter_files.h"

namespace quire {

/// What the base has where an adapter's module stands, all ranks together.
struct BaseModule {
  AdaptableLayer::Kind kind = AdaptableLayer::Kind::kLinear;
  int64_t outputs = 0;  ///< the weight is [outputs, inputs]; of an embedding [vocabulary, hidden]; of a norm [outputs]
  int64_t inputs = 0;
  bool has_bias = false;
};

/// The Error says what the module has that the base cannot take, or names a tensor with its shape and the one that the
/// base asks for. `where` (whose tensors they are) begins it.
Status check_module(const std::string& where, const AdapterModule& module, const BaseModule& base);

}  // namespace quire

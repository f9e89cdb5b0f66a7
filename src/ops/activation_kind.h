// Activation functions by the names that checkpoints' configs give them.
#pragma once

#include <cstdint>

namespace quire {

enum class Activation : uint8_t { kSilu, kGelu, kGeluTanh, kRelu };

}  // namespace quire

// Grouped products on the CPU. Arguments were checked by ops/grouped_linear.cc.
#pragma once

#include "ops/grouped_linear.h"

namespace quire::ops::cpu {

void grouped_linear(OpContext& context, std::span<const LinearPart> parts);

}  // namespace quire::ops::cpu

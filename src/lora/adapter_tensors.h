// Looks into tensors of an adapter: comparisons and checks that read their values.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/weight_source.h"

namespace quire {

/// "[8, 64]".
std::string shape_text(const WeightInfo& tensor);

/// "a, b, c and 12 more" of some names; at least one.
std::string list_some(const std::vector<std::string>& names);

/// Whether two tensors of one source have the same shape and the same values.
Result<bool> same_values(const WeightSource& source, const WeightInfo& a, const WeightInfo& b);

/// Refuses by name a tensor of a type other than F32, F16 and BF16, one without elements, and one that holds infinities
/// or values that are no numbers.
Status check_tensor(const WeightSource& source, const WeightInfo& tensor);

}  // namespace quire

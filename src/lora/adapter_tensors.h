// Looks into tensors of an adapter: comparisons and checks that read their values.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/weight_source.h"

namespace quire {

/// "[8, 64]".
std::string shape_text(const WeightInfo& tensor);

/// "SOURCE: tensor 'NAME' `what`".
Error bad_tensor(const WeightSource& source, const WeightInfo& tensor, const std::string& what);

/// "a, b, c and 12 more" of some names; at least one.
std::string list_some(const std::vector<std::string>& names);

/// A tensor and where it is read from.
struct SourcedTensor {
  const WeightSource& source;
  const WeightInfo& info;
};
/// Whether two tensors have the same shape, and values that are all equal.
Result<bool> same_values(const SourcedTensor& a, const SourcedTensor& b);

/// Whether one matrix is the other transposed.
Result<bool> is_transpose(const SourcedTensor& a, const SourcedTensor& b);

/// All values of a tensor, row by row.
Result<std::vector<float>> read_floats(const SourcedTensor& tensor);

/// Refuses by name a tensor with values that `storage` cannot hold.
Status check_range(const WeightSource& source, const WeightInfo& tensor, DType storage);

/// Refuses by name a tensor of a type other than F32, F16 and BF16, one without elements, and one that holds infinities
/// or values that are no numbers.
Status check_tensor(const WeightSource& source, const WeightInfo& tensor);

}  // namespace quire

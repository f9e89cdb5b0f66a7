// A copy of a base weight that an adapter carries: it must be the base's own, or the adapter is for another base.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "checkpoint/weight_source.h"

namespace quire {

/// Gathers how far the copy is from the base's weight, row by row; not all rows need be compared.
class BaseCopyCheck {
 public:
  void add(std::span<const float> copy, std::span<const float> base);

  /// Allows what rounding to another type does; else an Error that names `tensor` and says by how much it differs.
  /// `where` begins it.
  Status judge(const std::string& where, const WeightInfo& tensor) const;

 private:
  double difference_ = 0;  ///< sums of squares
  double size_ = 0;
};

}  // namespace quire

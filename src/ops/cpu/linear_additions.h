// Products that are added to a linear's output by the tasks that compute it, while it is still in their caches.
#pragma once

#include <span>

#include "ops/cpu/linear_part_call.h"
#include "ops/grouped_linear.h"

namespace quire::ops::cpu {

class LinearAdditions {
 public:
  LinearAdditions() = default;
  /// `parts` add to `out`. Memory is `context`'s workspace's.
  LinearAdditions(OpContext& context, std::span<const LinearPart> parts, const Tensor& out);

  /// Whether the part adds to whole panels of `out`, so that a task's panels of `out` are panels of the part.
  static bool fits(const LinearPart& part, const Tensor& out);

  /// Adds what belongs to rows [first_row, last_row) and panels [first_panel, last_panel) of out, which hold the
  /// linear's result.
  void add(int64_t first_row, int64_t last_row, int64_t first_panel, int64_t last_panel, int worker) const;

 private:
  struct Place {
    int64_t first_row;
    int64_t first_panel;
  };

  std::span<LinearPartCall> calls_;
  std::span<Place> places_;
  Tensor prepared_;  ///< a row for each worker
};

}  // namespace quire::ops::cpu

// What the norms share: learnt vectors, and rows that an adapter normalises with its own.
#pragma once

#include <cstdint>
#include <string>

#include "base/api.h"
#include "layers/forward_batch.h"
#include "layers/layer_context.h"
#include "layers/lora_hook.h"

namespace quire {

class QUIRE_API AdaptableNorm {
 public:
  AdaptableNorm(const AdaptableNorm&) = delete;
  AdaptableNorm& operator=(const AdaptableNorm&) = delete;

 protected:
  /// Registers `prefix`.weight and, with `bias`, `prefix`.bias of `size` values, and enters itself for adapters.
  AdaptableNorm(LayerContext& context, const std::string& prefix, int64_t size, bool bias);
  ~AdaptableNorm() = default;

  /// Calls work(first, count, weight, bias) for runs of the batch's current rows, which are `rows`, that share their
  /// vectors: the model's, or those of an adapter that has its own. Rows do not depend on each other, so neither does
  /// the result on how they are cut.
  template <typename Work>
  void for_each_run(const ForwardBatch& batch, int64_t rows, const Work& work) const {
    int64_t next = 0;
    if (lora_hook_ != nullptr) {
      for (const AdapterSegment& segment : batch.adapters) {
        const NormVectors own = lora_hook_->vectors_of(*segment.adapter);
        if (own.weight == nullptr && own.bias == nullptr) continue;
        if (segment.row_begin > next) work(next, segment.row_begin - next, weight_, bias_);
        work(segment.row_begin, segment.row_count, own.weight != nullptr ? *own.weight : weight_,
             own.bias != nullptr ? *own.bias : bias_);
        next = segment.row_begin + segment.row_count;
      }
    }
    if (next < rows) work(next, rows - next, weight_, bias_);
  }

  int64_t size() const { return weight_.cols(); }

 private:
  Tensor weight_;
  Tensor bias_;  ///< undefined where there is none
  NormLoraHook* lora_hook_ = nullptr;
};

}  // namespace quire

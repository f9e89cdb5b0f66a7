// What the engine needs of a model, and what a model is built from.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/api.h"
#include "checkpoint/model_config.h"
#include "checkpoint/weight_source.h"
#include "kv_cache/kv_cache_spec.h"
#include "layers/forward_batch.h"
#include "layers/layer_context.h"

namespace quire {

/// A causal language model: flat token rows in, hidden states and logits out.
class QUIRE_API Model {
 public:
  virtual ~Model() = default;

  /// One per attention layer of this rank, in order.
  virtual std::vector<KvCacheSpec> kv_cache_specs() const = 0;

  /// Fills every parameter from the checkpoint. `progress` is told of each tensor's bytes.
  virtual Status load_weights(const WeightSource& source, const std::function<void(int64_t)>& progress) = 0;

  /// Hidden states of batch.output_rows after the final norm, [output rows, hidden], in the workspace of batch.context.
  /// A pipeline stage other than the first begins with batch.intermediate; one other than the last leaves its own there
  /// and gives an undefined tensor.
  virtual Tensor forward(ForwardBatch& batch) = 0;

  /// Columns of each tensor that goes from a pipeline stage to the next (float32); none: the model cannot be divided
  /// into stages.
  virtual std::vector<int64_t> intermediate_widths() const { return {}; }

  /// Logits of some rows of forward()'s result: [rows, vocab], in the workspace. `adapters` counts those rows. All
  /// tensor parallel ranks of the last stage call it; ranks other than 0 may get an undefined tensor.
  virtual Tensor compute_logits(OpContext& context, const Tensor& hidden, std::span<const AdapterSegment> adapters) = 0;

  /// What checkpoints store apart and this model multiplies as one; adapters name their modules as checkpoints do.
  virtual std::span<const StackedName> stacked_names() const { return {}; }
};

/// Builds a model from its config. An Error says what the family cannot do.
using ModelFactory = std::function<Result<std::unique_ptr<Model>>(LayerContext&, const ModelConfig&)>;

}  // namespace quire

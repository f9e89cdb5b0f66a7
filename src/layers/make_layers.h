// The layers of a pipeline stage: a model is built from those that fall to this rank, and tells what lies elsewhere.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "distributed/partition.h"
#include "layers/layer_context.h"

namespace quire {

/// A layer's place in its model.
struct LayerPlace {
  int index = 0;       ///< in the model
  int local = 0;       ///< in this stage
  std::string prefix;  ///< "model.layers.7"
};

/// Parameters and adapters' modules whose names begin with `prefix` belong to another pipeline stage, which loads them.
inline void mark_elsewhere(LayerContext& context, const std::string& prefix) {
  context.parameters.add_elsewhere(prefix);
  context.adaptable.add_elsewhere(prefix);
}

/// Calls make(place), which gives a std::unique_ptr, for each of this stage's of the model's `total` layers, and
/// returns them in order. `prefix` is "model.layers".
template <typename Make>
auto make_layers(LayerContext& context, int64_t total, const std::string& prefix, Make&& make) {
  std::vector<decltype(make(LayerPlace{}))> layers;
  const Range own = partition_layers(total, context.pipeline_parallel, context.layers_per_stage);
  for (int64_t index = 0; index < total; ++index) {
    LayerPlace place{static_cast<int>(index), static_cast<int>(index - own.begin),
                     prefix + "." + std::to_string(index)};
    if (index >= own.begin && index < own.end) {
      layers.push_back(make(place));
    } else {
      mark_elsewhere(context, place.prefix);
    }
  }
  return layers;
}

}  // namespace quire

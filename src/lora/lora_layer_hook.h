// What a layer calls to have the adapters of a batch change its output.
#pragma once

#include <vector>

#include "layers/adaptable_layers.h"
#include "layers/lora_hook.h"
#include "lora/lora_layer.h"
#include "ops/grouped_linear.h"

namespace quire {

/// Lists of products that all layers fill in turn, kept so that a step allocates nothing.
struct LoraScratch {
  /// A segment whose ranks meet: `part` is what this rank brings, `whole` what all then have.
  struct Meeting {
    const LoraLayer* layer = nullptr;
    Tensor part;
    Tensor whole;
  };
  std::vector<Meeting> meetings;
  std::vector<ops::LinearPart> shrink;
  std::vector<ops::LinearPart> expand;
  std::vector<ops::LinearPart> replace;  ///< weights trained whole
};

/// Changes the output of one layer. Two groups of products do all segments: the shrink x Aᵀ into rows of the adapter's
/// own rank, and the expand, which adds their product with Bᵀ and finishes what it adds to; of a linear as part of the
/// layer's own product. Between them ranks meet where they divide both matrices, once for each segment.
class LoraLayerHook final : public LoraHook {
 public:
  /// `layer` is the layer's index in AdaptableLayers. `scratch` may be shared by layers that never run at the same
  /// time.
  LoraLayerHook(AdaptableLayer::Kind kind, size_t layer, LoraScratch& scratch)
      : kind_(kind), layer_(layer), scratch_(scratch) {}

  void apply(OpContext& context, std::span<const AdapterSegment> segments, int64_t first_row, const Tensor& x,
             Tensor& out) override;
  std::span<const ops::LinearPart> prepare(OpContext& context, std::span<const AdapterSegment> segments,
                                           int64_t first_row, const Tensor& x, Tensor& out) override;
  void finish(OpContext& context, std::span<const AdapterSegment> segments, int64_t first_row, const Tensor& x,
              Tensor& out) override;

 private:
  /// One segment's part; x and out hold its rows alone.
  void add_linear(OpContext& context, const LoraLayer& layer, const Tensor& x, const Tensor& out);
  void add_embedding(OpContext& context, const LoraLayer& layer, const Tensor& ids, Tensor& out);
  void add_slice(const LoraSlice& slice, const Tensor& shrunk, const Tensor& out);
  /// The rows of x Aᵀ, once the shrinks have been done and the ranks have met.
  Tensor shrink(OpContext& context, const LoraLayer& layer, const Tensor& x);
  void meet(OpContext& context);

  AdaptableLayer::Kind kind_;
  size_t layer_;
  LoraScratch& scratch_;
};

/// Finds the vectors that an adapter has in place of a norm's.
class LoraNormHook final : public NormLoraHook {
 public:
  explicit LoraNormHook(size_t layer) : layer_(layer) {}
  NormVectors vectors_of(const LoraAdapter& adapter) const override;

 private:
  size_t layer_;
};

}  // namespace quire

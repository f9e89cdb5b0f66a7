// Packs what an adapter changes of one layer: this rank's share of every tensor, in the storage type.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/huge_page_arena.h"
#include "base/result.h"
#include "lora/lora_fit.h"
#include "lora/lora_layer.h"
#include "tensor/op_context.h"

namespace quire {

/// Layers whose outputs are divided over the ranks cut B, those whose inputs are divided cut A.
class LoraLayerBuilder {
 public:
  /// `name` says whose tensors they are. All must outlive it; matrices get their memory from `arena`.
  LoraLayerBuilder(OpContext& context, const std::string& name, const WeightSource& tensors, DType storage,
                   HugePageArena& arena)
      : context_(context), name_(name), tensors_(tensors), storage_(storage), arena_(arena) {}

  /// `fits` are the modules of that layer, their shapes checked.
  Result<LoraLayer> build(const AdaptableLayer& layer, std::span<const LoraFit> fits);

 private:
  Status add_linear(const AdaptableLayer& layer, std::span<const LoraFit> fits, LoraLayer& result);
  Status add_embedding(const AdaptableLayer& layer, const AdapterModule& module, LoraLayer& result);
  Status add_tokens(const AdapterModule& module, LoraLayer& result);
  /// The matrices of a linear's slice, whose outputs are those `runs` of the module's.
  Status pack_slice(const AdaptableLayer& layer, const AdapterModule& module, std::span<const RowRun> runs,
                    LoraLayer& result, LoraSlice& slice);
  /// Its gain and offset.
  Status finish_slice(const AdaptableLayer& layer, const AdapterModule& module, std::span<const RowRun> runs,
                      const LoraLayer& result, LoraSlice& slice);
  /// Refuses an adapter that carries a copy of a base weight other than this model's.
  Status check_copy(const AdaptableLayer& layer, const LoraFit& fit);

  /// Packs rows of a tensor as output channels: run.local counts from `first_row` on. Columns `input` become the
  /// features.
  Status pack(const WeightInfo& tensor, std::span<const RowRun> runs, int64_t first_row, Range input,
              ops::PackedMatrix& matrix);
  Result<std::vector<float>> values_of(const WeightInfo& tensor) const;
  Tensor vector_of(std::span<const double> values);

  OpContext& context_;
  const std::string& name_;
  const WeightSource& tensors_;
  DType storage_;
  HugePageArena& arena_;
};

}  // namespace quire

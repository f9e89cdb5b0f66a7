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
///
/// DoRA needs norms of whole rows (of an embedding whole columns). Where this rank holds a part of them, build() leaves
/// their sums of squares in sums(), for the ranks to add up, and finish() does the rest.
class LoraLayerBuilder {
 public:
  /// `name` says whose tensors they are. All must outlive it; matrices get their memory from `arena`. With a
  /// `fully_sharded` place among several ranks the former also cut A, by its rows, and the latter B, by its columns.
  LoraLayerBuilder(OpContext& context, const std::string& name, const WeightSource& tensors, DType storage,
                   HugePageArena& arena, ParallelRank fully_sharded = {})
      : context_(context),
        name_(name),
        tensors_(tensors),
        storage_(storage),
        arena_(arena),
        fully_sharded_(fully_sharded) {}

  /// `fits` are the modules of that layer, their shapes checked. `result` must stay where it is until finish().
  Status build(const AdaptableLayer& layer, std::span<const LoraFit> fits, LoraLayer& result);
  /// The same values in the same order on all ranks.
  std::vector<double>& sums() { return sums_; }
  /// Called once after all build(), with the ranks' sums in sums().
  Status finish();

 private:
  Status add_linear(const AdaptableLayer& layer, std::span<const LoraFit> fits, LoraLayer& result);
  Status add_norm(const AdapterModule& module, LoraLayer& result);
  Status add_embedding(const AdaptableLayer& layer, const AdapterModule& module, LoraLayer& result);
  /// The transpose of an embedding's A for this rank's tokens.
  Status pack_lookup(const AdapterModule& module, const RowRun& tokens, LoraLayer& result);
  Status set_gain(const AdapterModule& module, std::span<const double> norms, LoraSlice& slice);
  Status add_tokens(const AdaptableLayer& layer, const AdapterModule& module, LoraLayer& result);
  /// Makes room for A: `ranks` rows for all slices together, or this rank's share of them.
  void make_a(const AdaptableLayer& layer, int64_t ranks, LoraLayer& result);
  /// What this rank has of a slice's A.
  Status pack_a(const AdaptableLayer& layer, const AdapterModule& module, const LoraSlice& slice, LoraLayer& result);
  /// What DoRA divides a slice's magnitudes by, squared; of the columns of the input that this rank has.
  Result<std::vector<double>> squares_of(const AdaptableLayer& layer, const AdapterModule& module,
                                         std::span<const RowRun> runs, const LoraSlice& slice);
  /// The matrices of a linear's slice, whose outputs are those `runs` of the module's; A aside.
  Status pack_slice(const AdaptableLayer& layer, const AdapterModule& module, std::span<const RowRun> runs,
                    LoraLayer& result, LoraSlice& slice);
  /// Its gain and offset. `norms` are those of its outputs with DoRA, else empty.
  Status finish_slice(const AdaptableLayer& layer, const AdapterModule& module, std::span<const RowRun> runs,
                      std::span<const double> norms, LoraSlice& slice);

  /// Packs rows of a tensor as output channels: run.local counts from `first_row` on. Columns `input` become the
  /// features.
  Status pack(const WeightInfo& tensor, std::span<const RowRun> runs, int64_t first_row, Range input,
              ops::PackedMatrix& matrix);
  Result<std::vector<float>> values_of(const WeightInfo& tensor) const;
  Tensor vector_of(std::span<const double> values);

  /// A slice whose norms wait for the other ranks: those squared are `count` of the sums, from `first` on.
  struct Waiting {
    const AdaptableLayer* layer = nullptr;
    const AdapterModule* module = nullptr;
    std::vector<RowRun> runs;
    LoraLayer* result = nullptr;
    int64_t column = 0;  ///< of the slice
    size_t first = 0;
    size_t count = 0;
  };
  void wait_for_norms(const AdaptableLayer& layer, const AdapterModule& module, std::span<const RowRun> runs,
                      LoraLayer& result, const LoraSlice& slice, std::span<const double> squares);

  OpContext& context_;
  const std::string& name_;
  const WeightSource& tensors_;
  DType storage_;
  HugePageArena& arena_;
  ParallelRank fully_sharded_;
  std::vector<double> sums_;
  std::vector<Waiting> waiting_;
};

}  // namespace quire

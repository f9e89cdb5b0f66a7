// What layers are built with: where weights live, how they are stored, which rank this is.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/huge_page_arena.h"
#include "distributed/partition.h"
#include "layers/adaptable_layers.h"
#include "layers/parameter_table.h"
#include "quantization/linear_method.h"
#include "tensor/op_context.h"

namespace quire {

/// Handed to every layer's constructor; outlives the model.
struct LayerContext {
  OpContext& op_context;
  HugePageArena& arena;
  ParameterTable& parameters;
  AdaptableLayers& adaptable;
  /// Chooses the method of a linear by its prefix ("model.layers.0.self_attn.qkv_proj").
  const LinearMethod& linear_method;
  /// The type that parameters outside linears (norms, biases) are rounded to.
  DType storage = DType::kFloat32;
  ParallelRank tensor_parallel;
  int64_t max_positions = 0;       ///< positions that rotary tables must cover
  ParallelRank pipeline_parallel;  ///< this rank's stage
  /// The layers of each stage; empty: as partition_layers() divides them.
  std::span<const int64_t> layers_per_stage;

  /// Makes the embedding's and the output head's tables; nullptr: linear_method does.
  const LinearMethod* table_method = nullptr;

  bool is_first_stage() const { return pipeline_parallel.rank == 0; }
  bool is_last_stage() const { return pipeline_parallel.rank == pipeline_parallel.size - 1; }
};

}  // namespace quire

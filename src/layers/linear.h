// The parallel linears: the only owners of matrices. Each has a sharding rule, a LinearMethod, a weight loader that
// takes named pieces and cuts this rank's share, and a LoRA hook. Names and rules are vLLM's; sizes need not divide.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "distributed/partition.h"
#include "layers/forward_batch.h"
#include "layers/layer_context.h"
#include "layers/lora_hook.h"
#include "layers/output_piece.h"

namespace quire {

/// What the linears share: the weight, its bias, loading and multiplication.
class LinearBase {
 public:
  virtual ~LinearBase() = default;
  LinearBase(const LinearBase&) = delete;
  LinearBase& operator=(const LinearBase&) = delete;

  /// out = x * Wᵀ + bias (this rank's part), and what the adapters change of it. x: [rows, in], out: [rows, out]; x's
  /// rows are those of the batch's current rows from `first_row` on.
  void forward(ForwardBatch& batch, const Tensor& x, Tensor& out, int64_t first_row = 0) const;

  /// This rank's sizes.
  int64_t in_features() const { return weight_->in_features(); }
  int64_t out_features() const { return weight_->out_features(); }

 protected:
  struct Shape {
    std::vector<OutputPiece> pieces;
    int64_t in_features = 0;  ///< of the checkpoint
    Range input;              ///< columns that this rank holds
    bool bias = false;
    bool add_bias_here = true;  ///< false on ranks whose sum another rank's bias is added to
  };
  LinearBase(LayerContext& context, const std::string& prefix, Shape shape);

 private:
  Status load_weight(OpContext& context, const WeightSource& source, const WeightInfo& weight, std::string_view piece);
  Status load_bias(OpContext& context, const WeightSource& source, const WeightInfo& weight, std::string_view piece);

  std::vector<OutputPiece> pieces_;
  Range input_;
  std::unique_ptr<LinearWeight> weight_;
  Tensor bias_;  ///< [1, out_features]; undefined where there is none to add
  DType storage_;
  LoraHook* lora_hook_ = nullptr;
};

/// The whole matrix on every rank.
class ReplicatedLinear : public LinearBase {
 public:
  ReplicatedLinear(LayerContext& context, std::string prefix, int64_t in_features, int64_t out_features, bool bias);
};

/// Output features divided over the ranks.
class ColumnParallelLinear : public LinearBase {
 public:
  /// Shares are multiples of `multiple` features.
  ColumnParallelLinear(LayerContext& context, std::string prefix, int64_t in_features, int64_t out_features, bool bias,
                       int64_t multiple = 1);

 protected:
  using LinearBase::LinearBase;
};

/// Several column-parallel matrices of the same input, multiplied as one: each piece is divided by itself.
class MergedColumnParallelLinear : public ColumnParallelLinear {
 public:
  struct Piece {
    std::string id;
    int64_t size;
  };
  MergedColumnParallelLinear(LayerContext& context, std::string prefix, int64_t in_features,
                             const std::vector<Piece>& pieces, bool bias, int64_t multiple = 1);
};

/// The attention projections q, k and v as one matrix: heads divided over the ranks, KV heads held where they are read.
class QKVParallelLinear : public ColumnParallelLinear {
 public:
  QKVParallelLinear(LayerContext& context, std::string prefix, int64_t hidden_size, int64_t head_dim,
                    const HeadPartition& heads, int64_t total_query_heads, int64_t total_kv_heads, bool bias);
};

/// Input features divided over the ranks: each gives a partial sum. The bias is whole and added once, by rank 0.
class RowParallelLinear : public LinearBase {
 public:
  /// `input` is the share of the input features that this rank's x holds.
  RowParallelLinear(LayerContext& context, std::string prefix, int64_t in_features, Range input, int64_t out_features,
                    bool bias);
};

}  // namespace quire

// The parallel linears: the only owners of matrices. Each has a sharding rule, a LinearMethod, a weight loader that
// takes named pieces and cuts this rank's share, and a LoRA hook. Names and rules are vLLM's; sizes need not divide.
//
// forward() is called by all ranks with the same rows, since some layers meet there. Where that fails,
// OpContext::failure says so and the output means nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/api.h"
#include "distributed/partition.h"
#include "layers/forward_batch.h"
#include "layers/layer_context.h"
#include "layers/lora_hook.h"
#include "layers/output_piece.h"

namespace quire {

/// What the linears share: the weight, its bias, loading and multiplication.
class QUIRE_API LinearBase {
 public:
  virtual ~LinearBase() = default;
  LinearBase(const LinearBase&) = delete;
  LinearBase& operator=(const LinearBase&) = delete;

  /// out = x * Wᵀ + bias, and what the adapters change of it: this rank's part, or all where the layer says so. x:
  /// [rows, in], out: [rows, out]; x's rows are those of the batch's current rows from `first_row` on.
  virtual void forward(ForwardBatch& batch, const Tensor& x, Tensor& out, int64_t first_row = 0) const {
    apply(batch, x, out, first_row);
  }

  /// The features that this rank's weight has.
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
  LinearBase(LayerContext& context, const std::string& prefix, Shape shape,
             AdaptableLayer::Division division = AdaptableLayer::Division::kNone);
  /// The product with this rank's weight.
  void apply(ForwardBatch& batch, const Tensor& x, Tensor& out, int64_t first_row) const;
  const std::vector<OutputPiece>& pieces() const { return pieces_; }
  Range input() const { return input_; }

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
class QUIRE_API ReplicatedLinear : public LinearBase {
 public:
  ReplicatedLinear(LayerContext& context, std::string prefix, int64_t in_features, int64_t out_features, bool bias);
};

/// Output features divided over the ranks.
class QUIRE_API ColumnParallelLinear : public LinearBase {
 public:
  /// Shares are multiples of `multiple` features. With `gather_output` every rank gets all features, in the
  /// checkpoint's order, instead of its share.
  ColumnParallelLinear(LayerContext& context, std::string prefix, int64_t in_features, int64_t out_features, bool bias,
                       int64_t multiple = 1, bool gather_output = false);

  void forward(ForwardBatch& batch, const Tensor& x, Tensor& out, int64_t first_row = 0) const override;

 protected:
  ColumnParallelLinear(LayerContext& context, const std::string& prefix, Shape shape)
      : LinearBase(context, prefix, std::move(shape), AdaptableLayer::Division::kOutput) {}
  /// Makes forward() gather; the pieces were divided in multiples of `multiple`.
  void gather_output(ParallelRank place, int64_t multiple);

 private:
  std::vector<std::vector<int64_t>> gathered_;  ///< for each piece the ranks' shares; empty where none gathers
};

/// Several column-parallel matrices of the same input, multiplied as one: each piece is divided by itself.
class QUIRE_API MergedColumnParallelLinear : public ColumnParallelLinear {
 public:
  struct Piece {
    std::string id;
    int64_t size;
  };
  MergedColumnParallelLinear(LayerContext& context, std::string prefix, int64_t in_features,
                             const std::vector<Piece>& pieces, bool bias, int64_t multiple = 1,
                             bool gather_output = false);
};

/// The attention projections q, k and v as one matrix: heads divided over the ranks, KV heads held where they are read.
class QUIRE_API QKVParallelLinear : public ColumnParallelLinear {
 public:
  QKVParallelLinear(LayerContext& context, std::string prefix, int64_t hidden_size, int64_t head_dim,
                    const HeadPartition& heads, int64_t total_query_heads, int64_t total_kv_heads, bool bias);
};

struct RowParallelOptions {
  bool input_is_parallel = true;  ///< x holds this rank's features only; false: x is whole, and cut here
  bool reduce_results = true;     ///< false: out is this rank's part of the sum, which the caller reduces
};

/// Input features divided over the ranks: each computes a part of the sum, and all get the sum. The bias is whole and
/// added once, by rank 0, before the sum.
class QUIRE_API RowParallelLinear : public LinearBase {
 public:
  /// `input` is the share of the input features that falls to this rank.
  RowParallelLinear(LayerContext& context, std::string prefix, int64_t in_features, Range input, int64_t out_features,
                    bool bias, RowParallelOptions options = {});

  void forward(ForwardBatch& batch, const Tensor& x, Tensor& out, int64_t first_row = 0) const override;

 private:
  bool cut_input_;
  bool reduce_;
};

}  // namespace quire

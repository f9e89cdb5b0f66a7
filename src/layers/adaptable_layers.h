// The layers of a model that an adapter can change, by name: layers enter themselves when they are built, the adapters'
// side finds them there.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "distributed/partition.h"
#include "layers/lora_hook.h"
#include "layers/output_piece.h"
#include "layers/parameter_table.h"
#include "quantization/linear_method.h"

namespace quire {

/// What an adapter needs to know of a layer with a weight [output, input], of a norm [output]. A layer lives as long as
/// its model.
struct AdaptableLayer {
  enum class Kind : uint8_t {
    kLinear,     ///< rows of activations times the weight
    kEmbedding,  ///< rows of the weight, by token id
    kNorm,       ///< normalises rows by a vector
  };
  /// Of a linear: what the tensor parallel ranks, if there are several, hold parts of.
  enum class Division : uint8_t { kNone, kOutput, kInput };
  Kind kind = Kind::kLinear;
  Division division = Division::kNone;
  std::string prefix;                    ///< "model.layers.0.self_attn.qkv_proj"
  std::vector<OutputPiece> pieces;       ///< of an embedding the vocabulary
  int64_t in_features = 0;               ///< of the checkpoint; of an embedding the hidden size, of a norm 1
  Range input;                           ///< of which this rank holds these
  const LinearWeight* weight = nullptr;  ///< nullptr of a norm
  const Tensor* norm_weight = nullptr;   ///< [1, output]; of a norm only
  const Tensor* bias = nullptr;          ///< this rank's, [1, local features]; nullptr or undefined where there is none
  bool add_bias_here = true;             ///< false on ranks whose sum another rank's bias is added to
  LoraHook** hook = nullptr;             ///< what the layer calls; nullptr until set, and of a norm
  NormLoraHook** norm_hook = nullptr;    ///< the same of a norm
};

class AdaptableLayers {
 public:
  void add(AdaptableLayer layer) { layers_.push_back(std::move(layer)); }
  /// In the order in which they were built: that of the forward pass.
  std::span<const AdaptableLayer> layers() const { return layers_; }

  /// Modules whose names begin with `prefix` (whole path components) belong to another pipeline stage.
  void add_elsewhere(std::string prefix) { elsewhere_.push_back(std::move(prefix)); }
  bool is_elsewhere(std::string_view module) const { return lies_below(module, elsewhere_); }

  /// A module of the checkpoint as a layer, or as one of its pieces.
  struct Target {
    size_t layer = 0;
    std::string_view piece;  ///< "" for the whole layer
  };
  /// The layer that holds the module of that name, whole or (by a stacked name) in part; nothing where there is none.
  std::optional<Target> find(std::string_view module, std::span<const StackedName> stacked) const;

 private:
  std::vector<AdaptableLayer> layers_;
  std::vector<std::string> elsewhere_;
};

}  // namespace quire

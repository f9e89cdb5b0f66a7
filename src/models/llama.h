// The Llama family: pre-norm decoder with rotary attention and a gated feed-forward block. Its neighbours (Mistral,
// Qwen) are the same network with other options.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "layers/attention.h"
#include "layers/gated_mlp.h"
#include "layers/linear.h"
#include "layers/make_layers.h"
#include "layers/norm.h"
#include "layers/rotary_embedding.h"
#include "layers/vocab_parallel_embedding.h"
#include "models/model.h"

namespace quire {

/// Where the families differ.
struct LlamaOptions {
  bool qkv_bias = false;
  bool output_bias = false;  ///< of o_proj
  bool mlp_bias = false;
  bool head_norms = false;  ///< RMSNorm on each query and key head before the rotation
};

class LlamaAttention {
 public:
  LlamaAttention(LayerContext& context, const ModelConfig& config, const LlamaOptions& options,
                 const HeadPartition& heads, const RotaryEmbedding& rotary, const LayerPlace& place);

  /// Writes x's keys and values to the cache and attends: what project() takes, [tokens, attended_features()].
  void attend(ForwardBatch& batch, const Tensor& x, Tensor& attended) const;
  void project(ForwardBatch& batch, const Tensor& attended, Tensor& out) const;
  int64_t attended_features() const { return query_heads_ * head_dim_; }
  KvCacheSpec kv_cache_spec() const { return attention_.kv_cache_spec(); }

 private:
  int64_t head_dim_;
  int64_t query_heads_;
  int64_t kv_heads_;
  const RotaryEmbedding& rotary_;
  QKVParallelLinear qkv_proj_;
  RowParallelLinear o_proj_;
  std::optional<RMSNorm> q_norm_;
  std::optional<RMSNorm> k_norm_;
  Attention attention_;
};

class LlamaDecoderLayer {
 public:
  LlamaDecoderLayer(LayerContext& context, const ModelConfig& config, const LlamaOptions& options,
                    const HeadPartition& heads, const RotaryEmbedding& rotary, const LayerPlace& place);

  /// residual carries the running sum, hidden what the previous layer adds to it (nothing yet on the first layer);
  /// hidden becomes what this layer adds.
  void forward(ForwardBatch& batch, bool first, Tensor& hidden, Tensor& residual) const;
  /// The same for the last layer: past attention only batch.output_rows go on, and hidden and residual have only those.
  void forward_output_rows(ForwardBatch& batch, bool first, Tensor& hidden, Tensor& residual) const;
  KvCacheSpec kv_cache_spec() const { return self_attn_.kv_cache_spec(); }

 private:
  void attend(ForwardBatch& batch, bool first, const Tensor& hidden, Tensor& residual, Tensor& attended) const;
  void finish(ForwardBatch& batch, const Tensor& attended, Tensor& hidden, Tensor& residual) const;

  RMSNorm input_layernorm_;
  LlamaAttention self_attn_;
  RMSNorm post_attention_layernorm_;
  GatedMlp mlp_;
};

class LlamaForCausalLM : public Model {
 public:
  LlamaForCausalLM(LayerContext& context, const ModelConfig& config, const LlamaOptions& options,
                   const HeadPartition& heads);

  std::vector<KvCacheSpec> kv_cache_specs() const override;
  Status load_weights(const WeightSource& source, const std::function<void(int64_t)>& progress) override;
  Tensor forward(ForwardBatch& batch) override;
  std::vector<int64_t> intermediate_widths() const override { return {hidden_size_, hidden_size_}; }
  Tensor compute_logits(OpContext& context, const Tensor& hidden, std::span<const AdapterSegment> adapters) override;
  std::span<const StackedName> stacked_names() const override;

 private:
  /// The stack's output rows go on past the last layer's attention.
  void forward_last_layer(ForwardBatch& batch, bool first, Tensor& hidden, Tensor& residual) const;

  ParameterTable& parameters_;
  int64_t hidden_size_;
  bool tied_;
  bool first_stage_;
  std::optional<VocabParallelEmbedding> embed_tokens_;  ///< of the first stage, and for a tied head of the last
  RotaryEmbedding rotary_;
  std::vector<std::unique_ptr<LlamaDecoderLayer>> layers_;
  std::optional<RMSNorm> norm_;            ///< of the last stage
  std::optional<ParallelLMHead> lm_head_;  ///< of the last stage
};

/// A model of this network; checks that its heads can be divided.
Result<std::unique_ptr<Model>> make_llama_like(LayerContext& context, const ModelConfig& config,
                                               const LlamaOptions& options);

/// LlamaForCausalLM: attention_bias covers q, k, v and o; mlp_bias the feed-forward block.
Result<std::unique_ptr<Model>> make_llama(LayerContext& context, const ModelConfig& config);

}  // namespace quire

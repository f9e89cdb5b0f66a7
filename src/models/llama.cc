#include "models/llama.h"

#include <fmt/format.h>

#include <cmath>

#include "ops/copy.h"

namespace quire {

namespace {

/// Checkpoints store these apart; the model multiplies them as one.
constexpr StackedName kStackedNames[] = {
    {".q_proj", ".qkv_proj", "q"},           {".k_proj", ".qkv_proj", "k"},       {".v_proj", ".qkv_proj", "v"},
    {".gate_proj", ".gate_up_proj", "gate"}, {".up_proj", ".gate_up_proj", "up"},
};

int64_t window_of(const ModelConfig& config, int layer) {
  const bool sliding = config.layer_types[static_cast<size_t>(layer)] == LayerType::kSlidingAttention;
  return sliding ? config.sliding_window.value_or(0) : 0;
}

}  // namespace

LlamaAttention::LlamaAttention(LayerContext& context, const ModelConfig& config, const LlamaOptions& options,
                               const HeadPartition& heads, const RotaryEmbedding& rotary, const LayerPlace& place)
    : head_dim_(config.head_dim),
      query_heads_(heads.query_heads.size()),
      kv_heads_(heads.kv_heads.size()),
      rotary_(rotary),
      qkv_proj_(context, place.prefix + ".self_attn.qkv_proj", config.hidden_size, config.head_dim, heads,
                config.num_attention_heads, config.num_key_value_heads, options.qkv_bias),
      o_proj_(context, place.prefix + ".self_attn.o_proj", config.num_attention_heads * config.head_dim,
              {heads.query_heads.begin * config.head_dim, heads.query_heads.end * config.head_dim}, config.hidden_size,
              options.output_bias),
      attention_(place.local, heads,
                 {config.head_dim, 1.0f / std::sqrt(static_cast<float>(config.head_dim)), 0.0f,
                  window_of(config, place.index)}) {
  if (options.head_norms) {
    q_norm_.emplace(context, place.prefix + ".self_attn.q_norm", config.head_dim, config.rms_norm_eps);
    k_norm_.emplace(context, place.prefix + ".self_attn.k_norm", config.head_dim, config.rms_norm_eps);
  }
}

void LlamaAttention::attend(ForwardBatch& batch, const Tensor& x, Tensor& attended) const {
  Workspace& workspace = *batch.context->workspace;
  const Workspace::Scope scope(workspace);
  Tensor qkv = workspace.tensor(x.rows(), qkv_proj_.out_features());
  qkv_proj_.forward(batch, x, qkv);
  Tensor q = qkv.slice_cols(0, query_heads_ * head_dim_);
  Tensor k = qkv.slice_cols(query_heads_ * head_dim_, kv_heads_ * head_dim_);
  const Tensor v = qkv.slice_cols((query_heads_ + kv_heads_) * head_dim_, kv_heads_ * head_dim_);
  if (q_norm_) q_norm_->forward_heads(batch, q, query_heads_);
  if (k_norm_) k_norm_->forward_heads(batch, k, kv_heads_);
  rotary_.forward(batch, query_heads_, q);
  rotary_.forward(batch, kv_heads_, k);
  attention_.forward(batch, q, k, v, attended);
}

void LlamaAttention::project(ForwardBatch& batch, const Tensor& attended, Tensor& out) const {
  o_proj_.forward(batch, attended, out);
}

LlamaDecoderLayer::LlamaDecoderLayer(LayerContext& context, const ModelConfig& config, const LlamaOptions& options,
                                     const HeadPartition& heads, const RotaryEmbedding& rotary, const LayerPlace& place)
    : input_layernorm_(context, place.prefix + ".input_layernorm", config.hidden_size, config.rms_norm_eps),
      self_attn_(context, config, options, heads, rotary, place),
      post_attention_layernorm_(context, place.prefix + ".post_attention_layernorm", config.hidden_size,
                                config.rms_norm_eps),
      mlp_(context, place.prefix + ".mlp", config.hidden_size, config.intermediate_size, options.mlp_bias,
           config.hidden_act) {}

void LlamaDecoderLayer::attend(ForwardBatch& batch, bool first, const Tensor& hidden, Tensor& residual,
                               Tensor& attended) const {
  OpContext& context = *batch.context;
  const Workspace::Scope scope(*context.workspace);
  Tensor normed = context.workspace->tensor(residual.rows(), residual.cols());
  if (first) {
    input_layernorm_.forward(batch, residual, normed);
  } else {
    input_layernorm_.forward(batch, hidden, residual, normed);
  }
  self_attn_.attend(batch, normed, attended);
}

void LlamaDecoderLayer::finish(ForwardBatch& batch, const Tensor& attended, Tensor& hidden, Tensor& residual) const {
  OpContext& context = *batch.context;
  const Workspace::Scope scope(*context.workspace);
  self_attn_.project(batch, attended, hidden);
  Tensor normed = context.workspace->tensor(hidden.rows(), hidden.cols());
  post_attention_layernorm_.forward(batch, hidden, residual, normed);
  mlp_.forward(batch, normed, hidden);
}

void LlamaDecoderLayer::forward(ForwardBatch& batch, bool first, Tensor& hidden, Tensor& residual) const {
  Workspace& workspace = *batch.context->workspace;
  const Workspace::Scope scope(workspace);
  Tensor attended = workspace.tensor(hidden.rows(), self_attn_.attended_features());
  attend(batch, first, hidden, residual, attended);
  finish(batch, attended, hidden, residual);
}

void LlamaDecoderLayer::forward_output_rows(ForwardBatch& batch, bool first, Tensor& hidden, Tensor& residual) const {
  Workspace& workspace = *batch.context->workspace;
  const auto rows = static_cast<int64_t>(batch.output_rows.size());
  Tensor kept_residual = workspace.tensor(rows, residual.cols());
  const Workspace::Scope scope(workspace);
  Tensor attended = workspace.tensor(hidden.rows(), self_attn_.attended_features());
  attend(batch, first, hidden, residual, attended);
  Tensor kept = workspace.tensor(rows, attended.cols());
  ops::select_rows(*batch.context, attended, batch.output_rows, kept);
  ops::select_rows(*batch.context, residual, batch.output_rows, kept_residual);
  residual = kept_residual;
  hidden = hidden.slice_rows(0, rows);
  batch.narrow_to_output_rows();
  finish(batch, kept, hidden, residual);
}

LlamaForCausalLM::LlamaForCausalLM(LayerContext& context, const ModelConfig& config, const LlamaOptions& options,
                                   const HeadPartition& heads)
    : parameters_(context.parameters),
      hidden_size_(config.hidden_size),
      tied_(config.tie_word_embeddings),
      first_stage_(context.is_first_stage()),
      rotary_(context, config) {
  const bool last_stage = context.is_last_stage();
  if (first_stage_ || (last_stage && tied_)) {
    embed_tokens_.emplace(context, "model.embed_tokens", config.vocab_size, config.hidden_size);
  } else {
    mark_elsewhere(context, "model.embed_tokens");
  }
  layers_ = make_layers(context, config.num_hidden_layers, "model.layers", [&](const LayerPlace& place) {
    return std::make_unique<LlamaDecoderLayer>(context, config, options, heads, rotary_, place);
  });
  if (!last_stage) {
    mark_elsewhere(context, "model.norm");
    mark_elsewhere(context, "lm_head");
    return;
  }
  norm_.emplace(context, "model.norm", config.hidden_size, config.rms_norm_eps);
  if (tied_) {
    lm_head_.emplace(context, "lm_head", *embed_tokens_);
  } else {
    lm_head_.emplace(context, "lm_head", config.vocab_size, config.hidden_size);
  }
}

std::vector<KvCacheSpec> LlamaForCausalLM::kv_cache_specs() const {
  std::vector<KvCacheSpec> specs;
  for (const auto& layer : layers_) specs.push_back(layer->kv_cache_spec());
  return specs;
}

Status LlamaForCausalLM::load_weights(const WeightSource& source, const std::function<void(int64_t)>& progress) {
  LoadOptions options;
  options.stacked = kStackedNames;
  options.ignored_suffixes = {"rotary_emb.inv_freq", "rotary_emb.cos_cached", "rotary_emb.sin_cached"};
  // A tied head is the embedding, whatever head the file holds; judge_tied_head() has told of one that differs.
  if (tied_) options.ignored_suffixes.emplace_back("lm_head.weight");
  options.progress = progress;
  return parameters_.load(source, options);
}

Tensor LlamaForCausalLM::forward(ForwardBatch& batch) {
  Workspace& workspace = *batch.context->workspace;
  Tensor hidden;
  Tensor residual;
  if (first_stage_) {
    hidden = workspace.tensor(batch.tokens(), hidden_size_);
    residual = workspace.tensor(batch.tokens(), hidden_size_);
    embed_tokens_->forward(batch, residual);
  } else {
    hidden = batch.intermediate[0];
    residual = batch.intermediate[1];
  }
  const size_t whole = norm_ ? layers_.size() - 1 : layers_.size();
  for (size_t i = 0; i < whole; ++i) layers_[i]->forward(batch, first_stage_ && i == 0, hidden, residual);
  if (!norm_) {
    batch.intermediate = {hidden, residual};
    return {};
  }
  forward_last_layer(batch, first_stage_ && whole == 0, hidden, residual);
  norm_->forward(batch, hidden, residual, hidden);
  return hidden;
}

void LlamaForCausalLM::forward_last_layer(ForwardBatch& batch, bool first, Tensor& hidden, Tensor& residual) const {
  if (static_cast<int64_t>(batch.output_rows.size()) == batch.tokens()) {
    layers_.back()->forward(batch, first, hidden, residual);
  } else {
    layers_.back()->forward_output_rows(batch, first, hidden, residual);
  }
}

Tensor LlamaForCausalLM::compute_logits(OpContext& context, const Tensor& hidden,
                                        std::span<const AdapterSegment> adapters) {
  return lm_head_->logits(context, hidden, adapters);
}

std::span<const StackedName> LlamaForCausalLM::stacked_names() const { return kStackedNames; }

Result<std::unique_ptr<Model>> make_llama_like(LayerContext& context, const ModelConfig& config,
                                               const LlamaOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(
      const HeadPartition heads,
      partition_heads(config.num_attention_heads, config.num_key_value_heads, context.tensor_parallel));
  if (config.intermediate_size < context.tensor_parallel.size) {
    return invalid_argument(fmt::format("a tensor parallel size of {} is more than the model's intermediate size of {}",
                                        context.tensor_parallel.size, config.intermediate_size),
                            "tensor_parallel_size");
  }
  return std::unique_ptr<Model>(std::make_unique<LlamaForCausalLM>(context, config, options, heads));
}

Result<std::unique_ptr<Model>> make_llama(LayerContext& context, const ModelConfig& config) {
  LlamaOptions options;
  options.qkv_bias = config.attention_bias;
  options.output_bias = config.attention_bias;
  options.mlp_bias = config.mlp_bias;
  return make_llama_like(context, config, options);
}

}  // namespace quire

// StableLM (transformers' StableLmForCausalLM) as a plugin of quire. From the Llama that quire knows it differs in its
// norms (LayerNorm with a bias), in rotating only a part of each head, and in the residual: with use_parallel_residual
// attention and feed-forward block both read the same normed input, and both are added to what came in.
#include <quire/plugin.h>

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace quire;

/// Checkpoints store these apart; the layers below multiply them as one.
constexpr StackedName kStackedNames[] = {
    {".q_proj", ".qkv_proj", "q"},           {".k_proj", ".qkv_proj", "k"},       {".v_proj", ".qkv_proj", "v"},
    {".gate_proj", ".gate_up_proj", "gate"}, {".up_proj", ".gate_up_proj", "up"},
};

/// What only this architecture's config.json has.
struct StableLmOptions {
  double layer_norm_eps = 1e-5;
  bool use_qkv_bias = false;
  bool use_parallel_residual = false;
};

/// Which fields the model reads, and which values of the others it computes.
ArchitectureConfig declare_config() {
  ArchitectureConfig config;
  config.model_type = "stablelm";
  config.partial_rotary_factor = true;
  config.defaults = {{"partial_rotary_factor", "0.25"}};
  config.own_fields = {"layer_norm_eps", "use_qkv_bias", "use_parallel_residual"};
  config.fixed_fields = {{"qk_layernorm", {"false"}}};
  return config;
}

Result<StableLmOptions> read_options(const OwnFields& fields) {
  StableLmOptions options;
  QUIRE_ASSIGN_OR_RETURN(options.layer_norm_eps, fields.number("layer_norm_eps", 1e-5, 0.0, 1.0));
  QUIRE_ASSIGN_OR_RETURN(options.use_qkv_bias, fields.boolean("use_qkv_bias", false));
  QUIRE_ASSIGN_OR_RETURN(options.use_parallel_residual, fields.boolean("use_parallel_residual", false));
  return options;
}

class StableLmAttention {
 public:
  StableLmAttention(LayerContext& context, const ModelConfig& config, const StableLmOptions& options,
                    const HeadPartition& heads, const RotaryEmbedding& rotary, const LayerPlace& place)
      : head_dim_(config.head_dim),
        query_heads_(heads.query_heads.size()),
        kv_heads_(heads.kv_heads.size()),
        rotary_(rotary),
        qkv_proj_(context, place.prefix + ".self_attn.qkv_proj", config.hidden_size, head_dim_, heads,
                  config.num_attention_heads, config.num_key_value_heads, options.use_qkv_bias),
        o_proj_(context, place.prefix + ".self_attn.o_proj", config.num_attention_heads * head_dim_,
                {heads.query_heads.begin * head_dim_, heads.query_heads.end * head_dim_}, config.hidden_size, false),
        attention_(place.local, heads, {head_dim_, 1.0f / std::sqrt(static_cast<float>(head_dim_))}) {}

  /// x, out: [tokens, hidden].
  void forward(ForwardBatch& batch, const Tensor& x, Tensor& out) const {
    Workspace& workspace = *batch.context->workspace;
    const Workspace::Scope scope(workspace);
    Tensor qkv = workspace.tensor(x.rows(), qkv_proj_.out_features());
    qkv_proj_.forward(batch, x, qkv);
    Tensor q = qkv.slice_cols(0, query_heads_ * head_dim_);
    Tensor k = qkv.slice_cols(query_heads_ * head_dim_, kv_heads_ * head_dim_);
    const Tensor v = qkv.slice_cols((query_heads_ + kv_heads_) * head_dim_, kv_heads_ * head_dim_);
    rotary_.forward(batch, query_heads_, q);
    rotary_.forward(batch, kv_heads_, k);
    Tensor attended = workspace.tensor(x.rows(), query_heads_ * head_dim_);
    attention_.forward(batch, q, k, v, attended);
    o_proj_.forward(batch, attended, out);
  }

  KvCacheSpec kv_cache_spec() const { return attention_.kv_cache_spec(); }

 private:
  int64_t head_dim_;
  int64_t query_heads_;  ///< of this rank, as kv_heads_
  int64_t kv_heads_;
  const RotaryEmbedding& rotary_;
  QKVParallelLinear qkv_proj_;
  RowParallelLinear o_proj_;
  Attention attention_;
};

class StableLmDecoderLayer {
 public:
  StableLmDecoderLayer(LayerContext& context, const ModelConfig& config, const StableLmOptions& options,
                       const HeadPartition& heads, const RotaryEmbedding& rotary, const LayerPlace& place)
      : input_layernorm_(context, place.prefix + ".input_layernorm", config.hidden_size, options.layer_norm_eps, true),
        self_attn_(context, config, options, heads, rotary, place),
        mlp_(context, place.prefix + ".mlp", config.hidden_size, config.intermediate_size, false, config.hidden_act) {
    if (options.use_parallel_residual) return;
    post_attention_layernorm_.emplace(context, place.prefix + ".post_attention_layernorm", config.hidden_size,
                                      options.layer_norm_eps, true);
  }

  /// hidden: [tokens, hidden], what the layer reads and adds to.
  void forward(ForwardBatch& batch, Tensor& hidden) const {
    OpContext& context = *batch.context;
    const Workspace::Scope scope(*context.workspace);
    Tensor normed = context.workspace->tensor(hidden.rows(), hidden.cols());
    Tensor out = context.workspace->tensor(hidden.rows(), hidden.cols());
    input_layernorm_.forward(batch, hidden, normed);
    self_attn_.forward(batch, normed, out);
    ops::add(context, out, hidden);
    if (post_attention_layernorm_) post_attention_layernorm_->forward(batch, hidden, normed);
    mlp_.forward(batch, normed, out);
    ops::add(context, out, hidden);
  }

  KvCacheSpec kv_cache_spec() const { return self_attn_.kv_cache_spec(); }

 private:
  LayerNorm input_layernorm_;
  StableLmAttention self_attn_;
  std::optional<LayerNorm> post_attention_layernorm_;  ///< without the parallel residual
  GatedMlp mlp_;
};

class StableLmForCausalLM : public Model {
 public:
  StableLmForCausalLM(LayerContext& context, const ModelConfig& config, const StableLmOptions& options,
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
      return std::make_unique<StableLmDecoderLayer>(context, config, options, heads, rotary_, place);
    });
    if (!last_stage) {
      mark_elsewhere(context, "model.norm");
      mark_elsewhere(context, "lm_head");
      return;
    }
    norm_.emplace(context, "model.norm", config.hidden_size, options.layer_norm_eps, true);
    if (tied_) {
      lm_head_.emplace(context, "lm_head", *embed_tokens_);
    } else {
      lm_head_.emplace(context, "lm_head", config.vocab_size, config.hidden_size);
    }
  }

  std::vector<KvCacheSpec> kv_cache_specs() const override {
    std::vector<KvCacheSpec> specs;
    for (const auto& layer : layers_) specs.push_back(layer->kv_cache_spec());
    return specs;
  }

  Status load_weights(const WeightSource& source, const std::function<void(int64_t)>& progress) override {
    LoadOptions options;
    options.stacked = kStackedNames;
    options.ignored_suffixes = {"rotary_emb.inv_freq"};
    if (tied_) options.ignored_suffixes.emplace_back("lm_head.weight");
    options.progress = progress;
    return parameters_.load(source, options);
  }

  Tensor forward(ForwardBatch& batch) override {
    OpContext& context = *batch.context;
    Tensor hidden;
    if (first_stage_) {
      hidden = context.workspace->tensor(batch.tokens(), hidden_size_);
      embed_tokens_->forward(batch, hidden);
    } else {
      hidden = batch.intermediate[0];
    }
    for (const auto& layer : layers_) layer->forward(batch, hidden);
    if (!norm_) {
      batch.intermediate = {hidden};
      return {};
    }
    Tensor kept = context.workspace->tensor(static_cast<int64_t>(batch.output_rows.size()), hidden_size_);
    ops::select_rows(context, hidden, batch.output_rows, kept);
    batch.narrow_to_output_rows();
    norm_->forward(batch, kept, kept);
    return kept;
  }

  std::vector<int64_t> intermediate_widths() const override { return {hidden_size_}; }

  Tensor compute_logits(OpContext& context, const Tensor& hidden, std::span<const AdapterSegment> adapters) override {
    return lm_head_->logits(context, hidden, adapters);
  }

  std::span<const StackedName> stacked_names() const override { return kStackedNames; }

 private:
  ParameterTable& parameters_;
  int64_t hidden_size_;
  bool tied_;
  bool first_stage_;
  std::optional<VocabParallelEmbedding> embed_tokens_;  ///< of the first stage, and for a tied head of the last
  RotaryEmbedding rotary_;
  std::vector<std::unique_ptr<StableLmDecoderLayer>> layers_;
  std::optional<LayerNorm> norm_;          ///< of the last stage
  std::optional<ParallelLMHead> lm_head_;  ///< of the last stage
};

Result<std::unique_ptr<Model>> make_stablelm(LayerContext& context, const ModelConfig& config) {
  QUIRE_ASSIGN_OR_RETURN(const StableLmOptions options, read_options(config.own_fields));
  QUIRE_ASSIGN_OR_RETURN(
      const HeadPartition heads,
      partition_heads(config.num_attention_heads, config.num_key_value_heads, context.tensor_parallel));
  return std::unique_ptr<Model>(std::make_unique<StableLmForCausalLM>(context, config, options, heads));
}

}  // namespace

QUIRE_PLUGIN() { ModelRegistry::instance().register_model("StableLmForCausalLM", make_stablelm, declare_config()); }

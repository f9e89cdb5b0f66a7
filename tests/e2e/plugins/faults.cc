// Models that do wrong, one architecture for each way; the test's config.json names the one it wants.
#include <quire/plugin.h>

#include <stdexcept>

namespace {

using namespace quire;

/// Does nothing right but exist.
class Faulty : public Model {
 public:
  Faulty(LayerContext& context, const ModelConfig& config, std::string fault)
      : fault_(std::move(fault)),
        hidden_(config.hidden_size),
        parameters_(context.parameters),
        embed_(context, "model.embed_tokens", config.vocab_size, config.hidden_size),
        norm_(context, fault_ == "MissingWeight" ? "model.no_such_norm" : "model.norm",
              fault_ == "WrongShape" ? config.hidden_size + 1 : config.hidden_size, 1e-5, true),
        head_(context, "lm_head", config.vocab_size, config.hidden_size) {}

  std::vector<KvCacheSpec> kv_cache_specs() const override {
    if (fault_ == "ThrowsInSpecs") throw 7;
    if (fault_ == "NoHeads") return {{KvCacheKind::kFullAttention, 0, 16, 16, 0}};
    if (fault_ == "NoAttention") return {};
    return {{KvCacheKind::kFullAttention, 1, 16, 16, 0}};
  }
  Status load_weights(const WeightSource& source, const std::function<void(int64_t)>&) override {
    if (fault_ == "ThrowsInLoad") throw std::runtime_error("no luck with the weights");
    return parameters_.load(source, {});
  }
  Tensor forward(ForwardBatch& batch) override {
    if (fault_ == "ThrowsInForward") throw 7;
    if (fault_ == "ThrowsInNoexcept") throw_nowhere();
    if (fault_ == "ThrowsForLongPrompts" && batch.tokens() > 40) throw std::runtime_error("the prompt is too long for me");
    Tensor hidden = batch.context->workspace->tensor(batch.tokens(), hidden_);
    embed_.forward(batch, hidden);
    if (fault_ == "WrongLayer") batch.kv_cache->layer(5);
    if (fault_ == "AllRows") return hidden;
    if (fault_ == "NoTensor") return {};
    Tensor kept = batch.context->workspace->tensor(static_cast<int64_t>(batch.output_rows.size()), hidden_);
    ops::select_rows(*batch.context, hidden, batch.output_rows, kept);
    batch.narrow_to_output_rows();
    norm_.forward(batch, kept, kept);
    return kept;
  }
  Tensor compute_logits(OpContext& context, const Tensor& hidden, std::span<const AdapterSegment> adapters) override {
    if (fault_ == "ThrowsInLogits") throw std::runtime_error("no luck with the logits");
    const Tensor logits = head_.logits(context, hidden, adapters);
    return fault_ == "WrongLogits" ? logits.slice_cols(0, logits.cols() - 1) : logits;
  }

  std::span<const StackedName> stacked_names() const override {
    if (fault_ == "ThrowsInNames") throw std::runtime_error("no luck with the names");
    return {};
  }

 private:
  static void throw_it() { throw std::runtime_error("no luck at all"); }
  static void throw_nowhere() noexcept { throw_it(); }

  std::string fault_;
  int64_t hidden_;
  ParameterTable& parameters_;
  VocabParallelEmbedding embed_;
  LayerNorm norm_;
  ParallelLMHead head_;
};

ModelFactory make(const std::string& fault) {
  return [fault](LayerContext& context, const ModelConfig& config) -> Result<std::unique_ptr<Model>> {
    if (fault == "ThrowsInFactory") throw std::runtime_error("no luck with the factory");
    if (fault == "GivesNothing") return std::unique_ptr<Model>();
    if (fault == "Refuses") return unsupported("this model does not like its config");
    return std::unique_ptr<Model>(std::make_unique<Faulty>(context, config, fault));
  };
}

}  // namespace

QUIRE_PLUGIN() {
  for (const char* fault : {"ThrowsInFactory", "GivesNothing", "Refuses", "WrongShape", "MissingWeight", "ThrowsInLoad",
                            "ThrowsInForward", "WrongLayer", "AllRows", "WrongLogits", "NoAttention", "ThrowsInSpecs",
                            "NoHeads", "ThrowsInNoexcept", "ThrowsForLongPrompts", "NoTensor", "ThrowsInLogits",
                            "ThrowsInNames"}) {
    ModelRegistry::instance().register_model(fault, make(fault), {});
  }
  ModelRegistry::instance().register_model("Refuses", make("Refuses"), {});
  ModelRegistry::instance().register_model("LlamaForCausalLM", make("Refuses"));
}

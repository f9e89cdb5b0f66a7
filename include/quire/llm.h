// quire as a library: load a model once, generate text from many prompts, all batched together.
//
//   quire::LLMOptions options;
//   options.model = "/models/SmolLM2-135M-Instruct";
//   quire::Expected<quire::LLM> llm = quire::LLM::create(options);
//   if (!llm) { std::cerr << llm.error().message << "\n"; return 1; }
//   auto outputs = llm->generate({quire::LLM::Prompt("The capital of France is")}, quire::SamplingParams{});
//   if (outputs) std::cout << (*outputs)[0].outputs[0].text << "\n";
//
// No function throws: what can go wrong comes back in an Expected. The log goes to standard error, through spdlog's
// default logger; a program that sets one of its own gets the lines there.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/api.h"
#include "quire/sampling_params.h"

namespace quire {

/// Why a call failed: one sentence, and the option or parameter at fault (empty where there is none).
struct LLMError {
  enum class Code { kInvalidArgument, kNotFound, kUnsupported, kUnavailable, kInternal };
  Code code = Code::kInternal;
  std::string message;
  std::string param;
};

/// A value or an LLMError. Only the one that is there may be read.
template <typename T>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : state_(std::in_place_index<0>, std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Expected(LLMError error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  explicit operator bool() const { return state_.index() == 0; }
  T& operator*() { return std::get<0>(state_); }
  const T& operator*() const { return std::get<0>(state_); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  const LLMError& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, LLMError> state_;
};

/// Every engine flag under its name, with the defaults for offline use. An absent value is decided when the model is
/// loaded.
struct LLMOptions {
  std::string model;                       ///< a Hugging Face folder, a .gguf file, or ORG/NAME of the hub
  std::string tokenizer;                   ///< where to read the tokenizer from; empty: from the model
  std::string revision;                    ///< branch, tag or commit of a model from the hub; empty: main
  std::string tokenizer_revision;          ///< of a tokenizer from the hub; empty: main
  std::string download_dir;                ///< Hugging Face's cache; empty: HF_HUB_CACHE, else HF_HOME/hub
  std::string hf_token;                    ///< empty: HF_TOKEN, else the saved one
  std::string chat_template;               ///< a path or the template's text; empty: the model's own
  std::string generation_config = "auto";  ///< auto: the model's own sampling defaults; vllm: none from there
  std::vector<std::string> model_plugins;  ///< libraries with models, each a path or ARCHITECTURE=PATH
  std::string ignore_unexpected_weights;   ///< tensors that match and no model takes are passed over; empty: none
  std::string dtype = "auto";              ///< auto, float32, bfloat16, float16: how unquantized weights are stored
  std::string quantization = "auto";       ///< auto, none, int8, int4, gguf: how weights are multiplied
  bool quantize_lm_head = false;           ///< with int8 and int4: embedding and output head too
  std::string kv_cache_dtype = "auto";     ///< auto, float32, bfloat16, float16
  std::optional<int64_t> max_model_len;    ///< -1: what the cache holds
  int64_t block_size = 16;                 ///< tokens in a page of the KV cache, a multiple of 16
  std::optional<int64_t> kv_cache_memory_bytes;
  std::optional<int64_t> num_gpu_blocks_override;
  bool enable_prefix_caching = true;
  bool enable_chunked_prefill = true;
  std::optional<int64_t> max_num_batched_tokens;  ///< of a step; none: up to 4096, beside decodes as target_itl_ms allows
  int64_t target_itl_ms = 100;                    ///< time of steps with decodes that prompts are cut to; see there
  std::optional<int64_t> max_num_seqs;            ///< 256
  int64_t long_prefill_token_threshold = 0;       ///< 0: longer than the largest step
  std::string scheduling_policy = "fcfs";         ///< fcfs or priority
  int64_t max_logprobs = 20;                      ///< -1: no cap
  std::string logprobs_mode = "raw_logprobs";     ///< or processed_logprobs, raw_logits, processed_logits
  int64_t seed = 0;                               ///< of requests that give none
  int threads = 0;                                ///< compute threads; 0: from affinity and CPU quota
  bool enable_lora = false;                       ///< prompts may name a LoRA adapter
  std::optional<int64_t> max_loras;               ///< distinct adapters in one step; none: no limit
  std::optional<int64_t> max_lora_rank;           ///< adapters of a higher rank are refused; none: no limit
  std::optional<int64_t> max_cpu_loras;  ///< idle adapters beyond this number leave memory, the longest unused first
  std::string lora_dtype =
      "auto";  ///< how adapters are stored: auto (as the model's weights), float32, bfloat16, float16
};

/// A LoRA adapter for a prompt. It is loaded from `path` on the first use of `name` and stays in memory; the name
/// stands for that path from then on.
struct LoraRequest {
  std::string name;
  std::string path;  ///< a PEFT folder, or ORG/ADAPTER of the hub
};

/// A loaded model. Thread-safe; movable. Destroying it ends what still runs.
class QUIRE_API LLM {
 public:
  /// A prompt as text (special tokens such as BOS are added as the tokenizer says) or as token ids.
  struct Prompt {
    Prompt(std::string prompt_text) : text(std::move(prompt_text)) {}  // NOLINT(google-explicit-constructor)
    Prompt(const char* prompt_text) : text(prompt_text) {}             // NOLINT(google-explicit-constructor)
    Prompt(std::vector<int32_t> prompt_token_ids)
        : token_ids(std::move(prompt_token_ids)) {}  // NOLINT(google-explicit-constructor)

    std::optional<std::string> text;
    std::vector<int32_t> token_ids;   ///< where there is no text
    int64_t priority = 0;             ///< lower runs first under the priority policy
    std::string cache_salt;           ///< cached pages are shared only between equal salts
    std::optional<LoraRequest> lora;  ///< none: the model alone
  };

  struct ChatMessage {
    std::string role;  ///< system, user, assistant, ...
    std::string content;
  };
  using Conversation = std::vector<ChatMessage>;

  struct ChatOptions {
    bool add_generation_prompt = true;
    std::string chat_template_kwargs;  ///< a JSON object of further template variables; empty for none
    /// The adapters of the conversations: one for each, one for all, or empty for none.
    std::vector<std::optional<LoraRequest>> lora;
  };

  struct Logprob {
    float logprob = 0;
    int64_t rank = 0;  ///< 1 is the most likely
    std::string decoded_token;
  };
  /// Token id to its log-probability: the token itself and as many of the most likely ones as were asked for.
  using LogprobMap = std::map<int32_t, Logprob>;

  struct CompletionOutput {
    int32_t index = 0;
    std::string text;
    std::vector<int32_t> token_ids;
    std::vector<LogprobMap> logprobs;  ///< one for each token, where asked for
    std::string finish_reason;         ///< "stop", "length", "repetition", "abort", "error"; empty while it runs
    /// The stop string, the stop token id or "repetition_detected"; none of them for EOS.
    std::variant<std::monostate, std::string, int32_t> stop_reason;
  };

  /// Times in seconds; complete when the request has finished. Of several choices: what concerns the prompt and the
  /// first token is the first choice's.
  struct Metrics {
    int64_t prompt_tokens = 0;
    int64_t completion_tokens = 0;  ///< of all choices
    int64_t cached_tokens = 0;      ///< of the prompt, taken from the prefix cache
    int64_t preemptions = 0;        ///< of the choice with the most
    double queue_time = 0;
    double time_to_first_token = 0;
    double e2e_latency = 0;  ///< until the last choice's end
  };

  struct RequestOutput {
    std::string request_id;
    std::optional<std::string> prompt;
    std::vector<int32_t> prompt_token_ids;
    std::vector<std::optional<LogprobMap>>
        prompt_logprobs;                    ///< where asked for: one for each prompt token, none for the first
    std::vector<CompletionOutput> outputs;  ///< one for each of SamplingParams::n
    bool finished = false;                  ///< all of them have
    std::optional<LLMError> error;          ///< with finish_reason "error"
    Metrics metrics;
  };

  /// Called, on the thread that called generate(), with what one choice of a request got since its last call (outputs
  /// has that choice alone; text, token_ids and logprobs are deltas; the prompt is left out) as index `prompt_index` of
  /// the prompts. `abort` may be called from it.
  using StreamCallback = std::function<void(size_t prompt_index, const RequestOutput& delta)>;

  static Expected<LLM> create(const LLMOptions& options);
  LLM(LLM&&) noexcept;
  LLM& operator=(LLM&&) noexcept;
  ~LLM();

  /// Runs all prompts together and returns their outputs in order. A prompt that cannot be taken fails the call and
  /// names its index.
  Expected<std::vector<RequestOutput>> generate(const std::vector<Prompt>& prompts, const SamplingParams& params,
                                                const StreamCallback& stream = {});
  /// The same with parameters for each prompt.
  Expected<std::vector<RequestOutput>> generate(const std::vector<Prompt>& prompts,
                                                const std::vector<SamplingParams>& params,
                                                const StreamCallback& stream = {});
  /// Renders the model's chat template for each conversation and generates the answers.
  Expected<std::vector<RequestOutput>> chat(const std::vector<Conversation>& conversations,
                                            const SamplingParams& params, const StreamCallback& stream = {});
  Expected<std::vector<RequestOutput>> chat(const std::vector<Conversation>& conversations,
                                            const SamplingParams& params, const StreamCallback& stream,
                                            const ChatOptions& options);

  /// Loads an adapter ahead of its first use, or (with `load_inplace`) anew under a name that is taken: what runs
  /// finishes with the weights it began with. Returns the load's id.
  Expected<uint64_t> add_lora(const LoraRequest& request, bool load_inplace = false);
  /// Forgets the name; the weights leave memory when the last request with them ends. False when it is not known.
  bool remove_lora(const std::string& name);
  /// The names that are known, sorted.
  std::vector<std::string> list_loras() const;

  /// Ends a request of a running generate() with finish_reason "abort".
  void abort(const std::string& request_id);

  /// The model's generation_config over the usual defaults.
  SamplingParams get_default_sampling_params() const;
  Expected<std::vector<int32_t>> encode(const std::string& text, bool add_special_tokens = true) const;
  Expected<std::string> decode(const std::vector<int32_t>& token_ids, bool skip_special_tokens = true) const;
  int64_t max_model_len() const;
  int64_t vocab_size() const;
  /// Drops cached pages; false when some are in use and stay.
  bool reset_prefix_cache();

 private:
  struct Impl;
  explicit LLM(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire

// Where `chat` and `complete` get their text: a server, or a model in this process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/engine_flags.h"

namespace quire::cli {

struct GenerationStats {
  int64_t prompt_tokens = 0, output_tokens = 0;
  double first_token_seconds = 0, seconds = 0;
};

/// Takes text as it comes.
using TextSink = std::function<void(const std::string& text)>;

struct TextOptions {
  std::optional<int64_t> max_tokens;
  std::optional<double> temperature;
  std::vector<std::string> lora;  ///< at most one: the adapter to load onto a model in this process
};

class TextBackend {
 public:
  virtual ~TextBackend() = default;
  virtual std::string model_name() const = 0;
  /// `messages` is the whole conversation. An interrupt (Ctrl-C) ends the answer early and is no Error.
  virtual Result<GenerationStats> chat(const nlohmann::ordered_json& messages, const TextSink& sink) = 0;
  virtual Result<GenerationStats> complete(const std::string& prompt, const TextSink& sink) = 0;
};

/// Talks to the OpenAI API at `url`. An Error says how to start a server when none answers.
Result<std::unique_ptr<TextBackend>> connect_backend(const std::string& url, const std::string& model_name,
                                                     const std::string& api_key, const TextOptions& options);

/// Loads a model. Throws StartupError.
std::unique_ptr<TextBackend> load_backend(const EngineArguments& arguments, const TextOptions& options);

}  // namespace quire::cli

// What config.json may say for an architecture that quire does not have built in, declared by the code that brings it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/api.h"
#include "base/result.h"
#include "checkpoint/window_rule.h"

namespace quire {

/// The fields of an architecture's config.json. Those that ModelConfig has are read for every model; a field that would
/// change the result and is neither among them nor declared here is refused by name.
struct ArchitectureConfig {
  /// Checked against config.json's where it is given, and finds the architecture where config.json names none.
  std::string model_type;

  // Which of ModelConfig's optional parts the model computes. A config that asks for another is refused.
  bool attention_bias = false;
  bool mlp_bias = false;
  bool partial_rotary_factor = false;
  WindowRule window = WindowRule::kRefused;

  /// This architecture's names for ModelConfig's fields: {"n_embd", "hidden_size"}.
  std::map<std::string, std::string> renamed;
  /// JSON text of the value that an absent field has: {"partial_rotary_factor", "0.25"}. vocab_size, hidden_size,
  /// num_hidden_layers, num_attention_heads and max_position_embeddings must be in the file or here.
  std::map<std::string, std::string> defaults;

  /// Read by the model itself, from ModelConfig::own_fields.
  std::vector<std::string> own_fields;
  /// Fields that the model does not read, each with JSON texts of the values that it computes: {"qk_layernorm",
  /// {"false"}}. Absent and null pass; any other value is refused.
  std::map<std::string, std::vector<std::string>> fixed_fields;
  /// Fields that do not change what the model computes.
  std::vector<std::string> ignored_fields;
};

/// The declared architectures of this process. Not for use by two threads at a time.
class QUIRE_API ArchitectureConfigs {
 public:
  static ArchitectureConfigs& instance();

  /// Adds or replaces an architecture's declaration.
  void declare(const std::string& architecture, ArchitectureConfig config);

  /// Called with an architecture's name before it is looked up: whoever loads architectures on demand declares it now.
  void set_resolver(std::function<Status(const std::string& architecture)> resolver);

  /// The declaration, or nullptr where there is none; the resolver's Error.
  Result<const ArchitectureConfig*> find(const std::string& architecture) const;

 private:
  std::map<std::string, ArchitectureConfig> configs_;
  std::function<Status(const std::string&)> resolver_;
};

}  // namespace quire

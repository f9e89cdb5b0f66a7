#include "models/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include "models/llama.h"
#include "models/mistral.h"
#include "models/qwen2.h"
#include "models/qwen3.h"

namespace quire {

ModelRegistry::ModelRegistry()
    : factories_{
          {"LlamaForCausalLM", make_llama},
          {"MistralForCausalLM", make_mistral},
          {"Qwen2ForCausalLM", make_qwen2},
          {"Qwen3ForCausalLM", make_qwen3},
      } {}

ModelRegistry& ModelRegistry::instance() {
  static ModelRegistry registry;
  return registry;
}

void ModelRegistry::register_model(const std::string& architecture, ModelFactory factory) {
  if (factories_.contains(architecture))
    spdlog::info("Model architecture {} is registered again and replaced", architecture);
  factories_[architecture] = std::move(factory);
}

Result<ModelFactory> ModelRegistry::find(const std::string& architecture) const {
  if (auto it = factories_.find(architecture); it != factories_.end()) return it->second;
  return unsupported(fmt::format("model architecture {} is not supported; supported are {}", architecture,
                                 fmt::join(architectures(), ", ")),
                     "architectures");
}

std::vector<std::string> ModelRegistry::architectures() const {
  std::vector<std::string> names;
  for (const auto& [name, factory] : factories_) names.push_back(name);
  return names;
}

}  // namespace quire

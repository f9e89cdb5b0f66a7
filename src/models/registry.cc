#include "models/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <optional>
#include <utility>

#include "models/llama.h"
#include "models/mistral.h"
#include "models/model_plugin.h"
#include "models/qwen2.h"
#include "models/qwen3.h"

namespace quire {

namespace {

struct BuiltIn {
  const char* architecture;
  ModelFactory factory;
  std::optional<ArchitectureConfig> config;
};

// Made when the program starts: checkpoints are opened, and their config.json judged, before anybody asks for a model.
[[maybe_unused]] const ModelRegistry& made_at_start = ModelRegistry::instance();

/// The factory, with what it throws as an Error.
ModelFactory guarded(const std::string& architecture, const std::string& library, ModelFactory factory) {
  return [architecture, library, factory = std::move(factory)](
             LayerContext& context, const ModelConfig& config) -> Result<std::unique_ptr<Model>> {
    const auto failed = [&](const char* why) {
      return internal_error(fmt::format("the model {}{} could not be built: {}", architecture,
                                        library.empty() ? "" : fmt::format(" of {}", library), why));
    };
    try {
      Result<std::unique_ptr<Model>> model = factory(context, config);
      if (model.ok() && *model == nullptr) return failed("its factory returned nothing");
      return model;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      return failed(error.what());
    } catch (...) {
      return failed("its factory threw something that is no std::exception");
    }
  };
}

}  // namespace

ModelRegistry::ModelRegistry() {
  // A third value declares what config.json may hold, where model_family.cc has no row for it.
  const BuiltIn built_in[] = {
      {"LlamaForCausalLM", make_llama, {}},
      {"MistralForCausalLM", make_mistral, {}},
      {"Qwen2ForCausalLM", make_qwen2, {}},
      {"Qwen3ForCausalLM", make_qwen3, {}},
  };
  for (const BuiltIn& model : built_in) {
    entries_[model.architecture] = {model.factory, "", true};
    if (model.config) ArchitectureConfigs::instance().declare(model.architecture, *model.config);
  }
  ArchitectureConfigs::instance().set_resolver(
      [this](const std::string& architecture) { return resolve(architecture); });
}

ModelRegistry& ModelRegistry::instance() {
  static ModelRegistry registry;
  return registry;
}

void ModelRegistry::register_model(const std::string& architecture, ModelFactory factory, ArchitectureConfig config) {
  ArchitectureConfigs::instance().declare(architecture, std::move(config));
  const auto found = entries_.find(architecture);
  if (found != entries_.end()) {
    const Entry& old = found->second;
    const std::string origin = old.built_in ? "built in" : old.library.empty() ? "registered before" : old.library;
    spdlog::info("Model architecture {} ({}) is replaced{}", architecture, origin,
                 library_.empty() ? "" : fmt::format(" by that of {}", library_));
  }
  entries_[architecture] = {guarded(architecture, library_, std::move(factory)), library_, false};
  ++registered_;
}

void ModelRegistry::register_model(const std::string& architecture, ModelFactory factory) {
  const auto found = entries_.find(architecture);
  if (found == entries_.end() || !found->second.built_in) {
    return register_model(architecture, std::move(factory), ArchitectureConfig{});
  }
  spdlog::info("Model architecture {} (built in) is replaced{}", architecture,
               library_.empty() ? "" : fmt::format(" by that of {}", library_));
  found->second = {guarded(architecture, library_, std::move(factory)), library_, true};
  ++registered_;
}

void ModelRegistry::register_library(const std::string& architecture, std::filesystem::path library) {
  libraries_[architecture] = std::move(library);
}

Status ModelRegistry::resolve(const std::string& architecture) {
  const auto found = libraries_.find(architecture);
  if (found == libraries_.end()) return {};
  const std::filesystem::path library = found->second;
  QUIRE_RETURN_IF_ERROR(load_model_library(library));
  const auto entry = entries_.find(architecture);
  if (entry == entries_.end() || entry->second.library.empty()) {
    return invalid_argument(
        fmt::format("{} is given for the architecture {}, but registers no such model", library.string(), architecture),
        "model_plugin");
  }
  libraries_.erase(architecture);
  return {};
}

Result<ModelFactory> ModelRegistry::find(const std::string& architecture) {
  QUIRE_RETURN_IF_ERROR(resolve(architecture));
  if (auto it = entries_.find(architecture); it != entries_.end()) return it->second.factory;
  return unsupported(
      fmt::format("model architecture {} is not supported; supported are {} (--model-plugin brings more)", architecture,
                  fmt::join(architectures(), ", ")),
      "architectures");
}

bool ModelRegistry::is_from_plugin(const std::string& architecture) const {
  const auto found = entries_.find(architecture);
  return found != entries_.end() && !found->second.library.empty();
}

std::vector<std::string> ModelRegistry::architectures() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

}  // namespace quire

#include "cli/adapter_flags.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "api/locate.h"

namespace quire::cli {

void add_lora_engine_flags(FlagSet& flags, LoraConfig& config) {
  flags.group("LoRA")
      .flag("--enable-lora", "Serve LoRA adapters beside the model", &config.enabled)
      .value("--max-loras", "N", "Most distinct adapters in one step; the others take turns (default: no limit)",
             into(&config.max_loras, 1))
      .value("--max-lora-rank", "N", "Refuse adapters of a higher rank (default: no limit)",
             into(&config.max_lora_rank, 1))
      .value("--max-cpu-loras", "N",
             "Adapters to keep in memory: beyond, the longest unused idle one leaves and is read again on its next use "
             "(default: no limit)",
             into(&config.max_cpu_loras, 1))
      .flag("--fully-sharded-loras",
            "Let tensor parallel ranks divide both matrices of an adapter: less memory, more messages (default: the "
            "one on the divided side)",
            &config.fully_sharded)
      .value("--lora-dtype", "TYPE",
             "Storage type of adapters: auto (that of the model's weights), float32, bfloat16, float16 (default: auto)",
             into(&config.dtype));
}

void add_lora_server_flags(FlagSet& flags, LoraConfig& config, std::vector<std::string>& modules) {
  flags.group("LoRA")
      .list("--lora-modules", "NAME=PATH",
            "Adapters to load at start, each NAME=PATH, NAME=ORG/ADAPTER of the hub, or JSON such as {\"name\": \"a\", "
            "\"path\": \"/adapters/a\"}",
            &modules)
      .value(
          "--lora-dir", "DIR",
          "Folder of which each sub-folder is an adapter of that name, loaded on its first use, also when it is added "
          "later",
          into(&config.folder));
}

void add_lora_path_flag(FlagSet& flags, std::vector<std::string>& paths) {
  flags.group("LoRA").list("--lora", "PATH",
                           "Folder, or ORG/ADAPTER of the hub, of a LoRA adapter to load onto --model", &paths);
}

void check_lora_arguments(const LoraConfig& config, const std::vector<std::string>& modules) {
  if (!config.enabled) {
    const auto needs = [](bool given, const char* flag) {
      if (given) throw FlagError(fmt::format("{} needs --enable-lora.", flag));
    };
    needs(config.max_loras.has_value(), "--max-loras");
    needs(config.max_lora_rank.has_value(), "--max-lora-rank");
    needs(config.max_cpu_loras.has_value(), "--max-cpu-loras");
    needs(config.fully_sharded, "--fully-sharded-loras");
    needs(config.dtype.has_value(), "--lora-dtype");
    needs(!modules.empty(), "--lora-modules");
    needs(!config.folder.empty(), "--lora-dir");
  }
  if (config.max_loras && config.max_cpu_loras && *config.max_cpu_loras < *config.max_loras) {
    throw FlagError(
        fmt::format("--max-cpu-loras {} is less than --max-loras {}: a step's adapters must all be in memory.",
                    *config.max_cpu_loras, *config.max_loras));
  }
}

namespace {

AdapterSpec parse_json_module(const std::string& text) {
  const nlohmann::json object = nlohmann::json::parse(text, nullptr, false);
  const auto wrong = [&](const std::string& why) {
    return FlagError(
        fmt::format("--lora-modules: {} {}: give NAME=PATH or JSON such as {{\"name\": \"a\", \"path\": "
                    "\"/adapters/a\"}}.",
                    text, why));
  };
  if (!object.is_object()) throw wrong("is no JSON object");
  AdapterSpec spec;
  for (const auto& [key, value] : object.items()) {
    std::string* const target = key == "name"              ? &spec.name
                                : key == "path"            ? &spec.path
                                : key == "base_model_name" ? &spec.base_model_name
                                                           : nullptr;
    if (target == nullptr) throw wrong(fmt::format("has a key '{}' that is not known", key));
    if (value.is_null() && key == "base_model_name") continue;
    if (!value.is_string()) throw wrong(fmt::format("has a '{}' that is no string", key));
    *target = value.get<std::string>();
  }
  if (spec.name.empty() || spec.path.empty()) throw wrong("lacks name or path");
  return spec;
}

}  // namespace

AdapterSpec parse_lora_module(const std::string& text) {
  if (text.starts_with('{')) return parse_json_module(text);
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos || equals + 1 == text.size()) {
    throw FlagError(fmt::format("--lora-modules: '{}' is not NAME=PATH.", text));
  }
  return {text.substr(0, equals), text.substr(equals + 1), {}, false};
}

std::vector<AdapterLease> load_adapters(AsyncLlm& llm, const std::vector<AdapterSpec>& specs) {
  std::vector<AdapterLease> leases;
  for (const AdapterSpec& spec : specs) {
    QUIRE_CHECK(llm.adapters() != nullptr);
    const auto check = [&](const auto& result) {
      if (!result.ok()) throw StartupError(fmt::format("LoRA adapter '{}': {}", spec.name, result.error().message));
    };
    const Result<AdapterSpec> located = locate_adapter(spec, llm.engine_config().hub);
    check(located);
    Result<AdapterLease> lease = llm.adapters()->load_and_wait(*located, false);
    check(lease);
    leases.push_back(std::move(lease).value());
  }
  return leases;
}

std::vector<AdapterSpec> specs_of_paths(const std::vector<std::string>& paths) {
  std::vector<AdapterSpec> specs;
  for (size_t i = 0; i < paths.size(); ++i) specs.push_back({fmt::format("{}#{}", paths[i], i), paths[i], {}, false});
  return specs;
}

}  // namespace quire::cli

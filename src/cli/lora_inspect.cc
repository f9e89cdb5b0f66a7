// `quire lora inspect PATH`: what an adapter holds, and whether it fits a model.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "base/check.h"
#include "cli/command.h"
#include "cli/flag_set.h"
#include "cli/hub_flags.h"
#include "cli/lora_arguments.h"
#include "lora/adapter_fit.h"

namespace quire::cli {
namespace {

using nlohmann::ordered_json;

struct Arguments {
  std::string path;
  std::string model;
  std::vector<std::string> model_plugins;
  HubOptions hub;
  bool json = false;
};

/// What the module has: "pair", "DoRA pair", "bias", "whole weight", "4 token rows".
std::string kind_of(const AdapterModule& module) {
  std::vector<std::string> kinds;
  if (module.a != nullptr) {
    const char* what = module.embedding ? "embedding pair" : "pair";
    kinds.push_back(module.magnitude != nullptr ? fmt::format("DoRA {}", what) : what);
  }
  if (module.lora_bias != nullptr) kinds.emplace_back("bias of the pair");
  if (module.bias != nullptr) kinds.emplace_back("bias");
  if (module.weight != nullptr) kinds.emplace_back("whole weight");
  if (module.token_rows != nullptr) kinds.push_back(fmt::format("{} token rows", module.token_ids.size()));
  if (kinds.empty()) kinds.emplace_back("copy of the base's weight");
  return fmt::format("{}", fmt::join(kinds, ", "));
}

/// A module's path with the layer's number apart: {"model.layers.*.mlp.up_proj", 3}.
std::pair<std::string, std::optional<int64_t>> by_layer(const std::string& path) {
  for (size_t begin = path.find('.'); begin != std::string::npos; begin = path.find('.', begin + 1)) {
    const size_t end = path.find('.', begin + 1);
    if (end == std::string::npos) break;
    const std::string part = path.substr(begin + 1, end - begin - 1);
    const bool number = !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == std::string::npos;
    if (number) return {path.substr(0, begin + 1) + "*" + path.substr(end), std::stoll(part)};
  }
  return {path, std::nullopt};
}

/// "0-3, 7" of sorted numbers.
std::string ranges_text(const std::set<int64_t>& numbers) {
  std::vector<std::string> parts;
  for (auto at = numbers.begin(); at != numbers.end();) {
    const int64_t first = *at;
    int64_t last = first;
    while (++at != numbers.end() && *at == last + 1) last = *at;
    parts.push_back(first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// Modules of the same name, kind, rank and scale over the layers are one row.
struct Group {
  std::string name, kind, rank, scale;
  std::set<int64_t> layers;
  int64_t bytes = 0;
};

int64_t bytes_of(const AdapterModule& module) {
  int64_t bytes = 0;
  for (const WeightInfo* tensor : module.tensors()) bytes += static_cast<int64_t>(tensor->stored_bytes);
  return bytes;
}

std::vector<Group> groups_of(const AdapterFiles& files) {
  std::vector<Group> groups;
  std::map<std::vector<std::string>, size_t> places;
  for (const AdapterModule& module : files.modules()) {
    const auto [name, layer] = by_layer(module.path);
    const std::string rank = module.a != nullptr ? std::to_string(module.rank) : "-";
    const std::string scale = module.a != nullptr ? fmt::format("{:g}", module.scale) : "-";
    const std::string kind = kind_of(module);
    const auto [place, added] = places.emplace(std::vector{name, kind, rank, scale}, groups.size());
    if (added) groups.push_back({name, kind, rank, scale, {}, 0});
    Group& group = groups[place->second];
    if (layer) group.layers.insert(*layer);
    group.bytes += bytes_of(module);
  }
  return groups;
}

std::string stored_types(const AdapterFiles& files) {
  std::set<std::string> types;
  for (const WeightInfo& tensor : files.tensors().tensors()) types.insert(tensor.stored_type);
  return fmt::format("{}", fmt::join(types, ", "));
}

std::string size_text(int64_t bytes) {
  if (bytes >= 1'000'000) return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
  return fmt::format("{:.1f} kB", static_cast<double>(bytes) / 1e3);
}

void print_text(const AdapterFiles& files, const std::string& fit) {
  fmt::print("adapter     {}\n", files.folder().string());
  fmt::print("trained on  {}\n", files.base_model_name().empty() ? "not said" : files.base_model_name());
  fmt::print("tensors     {} ({}), {}\n", files.tensors().tensors().size(), stored_types(files),
             size_text(files.stored_bytes()));
  fmt::print("modules     {}, highest rank {}\n\n", files.modules().size(), files.max_rank());
  const std::vector<Group> groups = groups_of(files);
  size_t width = 6;
  for (const Group& group : groups) width = std::max(width, group.name.size());
  fmt::print("{:<{}}  {:>5}  {:>8}  {:>10}  {:<24}  {}\n", "module", width, "rank", "scale", "bytes", "what", "layers");
  for (const Group& group : groups) {
    fmt::print("{:<{}}  {:>5}  {:>8}  {:>10}  {:<24}  {}\n", group.name, width, group.rank, group.scale,
               size_text(group.bytes), group.kind, ranges_text(group.layers));
  }
  if (!fit.empty()) fmt::print("\n{}\n", fit);
}

ordered_json module_json(const AdapterModule& module) {
  ordered_json result = {{"path", module.path}, {"kind", kind_of(module)}, {"bytes", bytes_of(module)}};
  if (module.a != nullptr) {
    result["rank"] = module.rank;
    result["scale"] = module.scale;
  }
  if (module.token_rows != nullptr) result["token_ids"] = module.token_ids;
  return result;
}

void print_json(const AdapterFiles& files, const Arguments& arguments, const Status& fit) {
  ordered_json report = {{"path", files.folder().string()},
                         {"base_model_name", files.base_model_name()},
                         {"tensors", files.tensors().tensors().size()},
                         {"bytes", files.stored_bytes()},
                         {"max_rank", files.max_rank()},
                         {"modules", ordered_json::array()}};
  for (const AdapterModule& module : files.modules()) report["modules"].push_back(module_json(module));
  if (!arguments.model.empty()) {
    report["model"] = arguments.model;
    report["fits"] = fit.ok();
    if (!fit.ok()) report["reason"] = fit.error().message;
  }
  fmt::print("{}\n", report.dump(2, ' ', false, ordered_json::error_handler_t::replace));
}

Status check_fit(const AdapterFiles& files, const Checkpoint& model) {
  const AdapterBase base(*model.weights, model.config.tie_word_embeddings);
  QUIRE_RETURN_IF_ERROR(check_adapter_fit(files, base));
  return check_base_copies(files, base);
}

int run(const Arguments& arguments) {
  const auto files = open_adapter(arguments.path, arguments.hub, "quire lora inspect");
  Status fit;
  if (!arguments.model.empty()) {
    fit = check_fit(*files, open_base_model(arguments.model, arguments.hub, arguments.model_plugins));
  }
  if (arguments.json) {
    print_json(*files, arguments, fit);
  } else {
    print_text(*files, arguments.model.empty() || !fit.ok() ? "" : fmt::format("It fits {}.", arguments.model));
  }
  std::fflush(stdout);
  if (!fit.ok()) throw StartupError(fit.error().message);
  return 0;
}

}  // namespace

Command add_lora_inspect_command(CLI::App& parent) {
  CLI::App* const app = add_subcommand(parent, "inspect", "Print what an adapter holds, and whether it fits a model");
  const auto arguments = std::make_shared<Arguments>();
  FlagSet flags(*app);
  flags.positional("PATH", "Folder with adapter_config.json, or ORG/ADAPTER of the hub", &arguments->path);
  flags.group("Inspection")
      .value("--model", "PATH",
             "A model, also ORG/NAME of the hub, to hold the adapter against; exit code 1 if it does not fit",
             into(&arguments->model))
      .repeatable("--model-plugin", "PATH|ARCHITECTURE=PATH",
                  "Shared library with the model's architecture, repeatable", &arguments->model_plugins)
      .flag("--json", "Print JSON, with every module", &arguments->json);
  add_hub_flags(flags, arguments->hub);
  return {app, [arguments] { return run(*arguments); }};
}

}  // namespace quire::cli

#include "models/model_plugin.h"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <cstring>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/mapped_file.h"
#include "models/registry.h"
#include "quire/plugin.h"

namespace quire {

/// While it lives, what is registered counts as that library's.
class PluginRegistration {
 public:
  explicit PluginRegistration(std::string library)
      : outer_library_(std::exchange(registry_.library_, std::move(library))),
        outer_count_(std::exchange(registry_.registered_, 0)) {}
  ~PluginRegistration() {
    registry_.library_ = std::move(outer_library_);
    registry_.registered_ = outer_count_;
  }
  PluginRegistration(const PluginRegistration&) = delete;
  PluginRegistration& operator=(const PluginRegistration&) = delete;

  /// Models registered since it began.
  int count() const { return registry_.registered_; }

 private:
  ModelRegistry& registry_ = ModelRegistry::instance();
  std::string outer_library_;
  int outer_count_;
};

namespace {

Error refused(const std::filesystem::path& path, const std::string& why) {
  return invalid_argument(fmt::format("model plugin {} {}", path.string(), why), "model_plugin");
}

std::string_view without_prefix(std::string_view abi) {
  return abi.starts_with(QUIRE_PLUGIN_ABI_PREFIX) ? abi.substr(sizeof(QUIRE_PLUGIN_ABI_PREFIX) - 1) : abi;
}

/// An Error unless the library was built for this quire.
Status judge_abi(const std::filesystem::path& path, std::string_view abi) {
  if (abi == QUIRE_PLUGIN_ABI) return {};
  return refused(path, fmt::format("was built for {}, but this is {}: build it again with this quire's headers",
                                   without_prefix(abi).substr(0, 200), without_prefix(QUIRE_PLUGIN_ABI)));
}

/// The ABI text that QUIRE_PLUGIN puts into a library, found in the file's bytes.
std::optional<std::string> abi_text_of(std::string_view file) {
  const size_t begin = file.find(QUIRE_PLUGIN_ABI_PREFIX);
  if (begin == std::string_view::npos) return std::nullopt;
  return std::string(file.substr(begin, file.find('\0', begin) - begin));
}

template <typename Header>
std::optional<Header> header_at(std::string_view file, uint64_t offset) {
  if (offset > file.size() || file.size() - offset < sizeof(Header)) return std::nullopt;
  Header header;
  std::memcpy(&header, file.data() + offset, sizeof(header));
  return header;
}

/// Whether the file has all that its header says is to be mapped: the loader would touch what is not there.
bool is_whole_library(std::string_view file) {
  const auto header = header_at<ElfW(Ehdr)>(file, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return false;
  if (header->e_type != ET_DYN || header->e_phentsize != sizeof(ElfW(Phdr))) return false;
  for (uint64_t i = 0; i < header->e_phnum; ++i) {
    const auto segment = header_at<ElfW(Phdr)>(file, header->e_phoff + i * sizeof(ElfW(Phdr)));
    if (!segment) return false;
    if (segment->p_offset > file.size() || segment->p_filesz > file.size() - segment->p_offset) return false;
  }
  return true;
}

/// Reads what the file says of itself, before the loader runs its initialisers.
Status judge_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return refused(path, "is not found");
  QUIRE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  const auto bytes = file.bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!is_whole_library(text)) return refused(path, "is no shared library, or one that is cut short");
  if (const auto abi = abi_text_of(text)) return judge_abi(path, *abi);
  return {};
}

/// Where quire itself is a library, the plugin's symbols are looked up in it even if its user has loaded it for himself
/// alone.
void offer_own_symbols() {
  Dl_info own = {};
  if (dladdr(reinterpret_cast<void*>(&load_model_library), &own) == 0 || own.dli_fname == nullptr) return;
  dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

template <typename Function>
Function* find_function(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

/// Calls `function`; what it throws becomes an Error that says that `what` failed.
template <typename Function>
Status call(const std::filesystem::path& path, const char* what, Function&& function) {
  try {
    function();
    return {};
  } catch (const std::exception& error) {
    return refused(path, fmt::format("failed {}: {}", what, error.what()));
  } catch (...) {
    return refused(path, fmt::format("failed {}: it threw something that is no std::exception", what));
  }
}

Status open_library(const std::filesystem::path& path) {
  offer_own_symbols();
  void* library = nullptr;
  std::string fault;
  QUIRE_RETURN_IF_ERROR(call(path, "in its initialisers", [&] {
    library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) fault = dlerror();
  }));
  if (library == nullptr) return refused(path, "could not be loaded: " + fault);
  auto* const abi = find_function<const char*()>(library, "quire_plugin_abi");
  auto* const register_models = find_function<void()>(library, "quire_plugin_register");
  if (abi == nullptr || register_models == nullptr) {
    return refused(path, fmt::format("is no plugin of quire: it has no function {} (the macro QUIRE_PLUGIN defines it)",
                                     abi == nullptr ? "quire_plugin_abi" : "quire_plugin_register"));
  }
  const char* const text = abi();
  QUIRE_RETURN_IF_ERROR(judge_abi(path, text == nullptr ? "nothing" : text));
  const PluginRegistration registration(path.string());
  QUIRE_RETURN_IF_ERROR(call(path, "to register its models", register_models));
  if (registration.count() == 0) return refused(path, "registers no model");
  return {};
}

/// "MyForCausalLM=libmine.so" -> its two parts; nothing for a path.
std::optional<std::pair<std::string, std::string>> split_lazy(const std::string& plugin) {
  const size_t equals = plugin.find('=');
  if (equals == std::string::npos || equals == 0) return std::nullopt;
  const std::string architecture = plugin.substr(0, equals);
  if (architecture.find_first_of("/.") != std::string::npos) return std::nullopt;
  return std::pair(architecture, plugin.substr(equals + 1));
}

}  // namespace

Status load_model_library(const std::filesystem::path& path) {
  static std::set<std::filesystem::path> loaded;
  std::error_code error;
  std::filesystem::path real = std::filesystem::canonical(path, error);
  if (error) real = path;
  if (loaded.contains(real)) return {};
  QUIRE_RETURN_IF_ERROR(judge_file(real));
  QUIRE_RETURN_IF_ERROR(open_library(real));
  loaded.insert(std::move(real));
  return {};
}

std::filesystem::path plugin_library(const std::string& plugin) {
  const auto lazy = split_lazy(plugin);
  return lazy ? lazy->second : plugin;
}

Status load_model_plugins(std::span<const std::string> plugins) {
  for (const std::string& plugin : plugins) {
    if (const auto lazy = split_lazy(plugin)) {
      ModelRegistry::instance().register_library(lazy->first, lazy->second);
    } else {
      QUIRE_RETURN_IF_ERROR(load_model_library(plugin));
    }
  }
  return {};
}

}  // namespace quire

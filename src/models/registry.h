// Which architectures quire knows, by the names in config.json's "architectures".
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/api.h"
#include "checkpoint/architecture_config.h"
#include "models/model.h"

namespace quire {

/// Maps architecture names to factories. Starts with the built-in families; plugins and programs register more before
/// they load a model. Not for use by two threads at a time.
class QUIRE_API ModelRegistry {
 public:
  /// The process's registry, holding the built-in families at first.
  static ModelRegistry& instance();

  /// Adds an architecture, or replaces one, also a built-in one, and logs that. The second form replaces the factory of
  /// a built-in architecture alone, whose config.json is then judged as ever; any other architecture's has only the
  /// fields that ModelConfig reads for every model.
  void register_model(const std::string& architecture, ModelFactory factory, ArchitectureConfig config);
  void register_model(const std::string& architecture, ModelFactory factory);

  /// The architecture is in a plugin that is loaded only when a checkpoint asks for it.
  void register_library(const std::string& architecture, std::filesystem::path library);

  /// The factory, or an Error that names the architecture and lists the known ones, or says why its library could not
  /// be loaded. What a registered factory throws becomes an Error.
  Result<ModelFactory> find(const std::string& architecture);

  /// Whether a plugin brought the architecture's factory.
  bool is_from_plugin(const std::string& architecture) const;

  std::vector<std::string> architectures() const;

 private:
  struct Entry {
    ModelFactory factory;
    std::string library;  ///< empty: built in, or registered by the program itself
    bool built_in = false;
  };

  friend class PluginRegistration;  // says whose models are being registered

  ModelRegistry();
  /// Loads the library of an architecture that was registered with one.
  Status resolve(const std::string& architecture);

  std::map<std::string, Entry> entries_;
  std::map<std::string, std::filesystem::path> libraries_;  ///< of architectures that are not loaded yet
  std::string library_;                                     ///< being loaded now
  int registered_ = 0;                                      ///< by that library so far
};

}  // namespace quire

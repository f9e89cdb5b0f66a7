// Which architectures quire knows, by the names in config.json's "architectures".
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/model.h"

namespace quire {

/// Maps architecture names to factories. Starts with the built-in families; more can be registered.
class ModelRegistry {
 public:
  /// The process's registry, holding the built-in families at first.
  static ModelRegistry& instance();

  /// Adds or, with a log line, replaces an architecture.
  void register_model(const std::string& architecture, ModelFactory factory);

  /// The factory, or an Error that names the architecture and lists the known ones.
  Result<ModelFactory> find(const std::string& architecture) const;

  std::vector<std::string> architectures() const;

 private:
  ModelRegistry();
  std::map<std::string, ModelFactory> factories_;
};

}  // namespace quire

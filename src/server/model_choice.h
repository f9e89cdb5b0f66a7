// What a request's `model` names: the base model or an adapter.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "api/loaded_adapter.h"
#include "server/http/http_types.h"
#include "server/server_context.h"

namespace quire {

struct ModelChoice {
  std::string name;      ///< as answers give it
  AdapterLease adapter;  ///< nullptr: the base model
};

/// The name for a request's `model`: absent or empty is the first served; an unknown one is a not-found Error that
/// lists the known. Loads nothing.
Result<std::string> resolve_model(const ServerContext& context, const std::optional<std::string>& asked);

/// Calls `then` with the choice: here, or, where an adapter must be loaded first, later on the context's pool. Its
/// Error, or that of the choice, is the answer to `writer`.
void with_model(ServerContext& context, const std::optional<std::string>& asked,
                const std::shared_ptr<ResponseWriter>& writer, std::function<Status(ModelChoice)> then);

}  // namespace quire

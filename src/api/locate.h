// Where a model or adapter lies on this machine, once it does.
#pragma once

#include <string>

#include "api/adapter_catalog.h"
#include "base/result.h"
#include "hub/download.h"

namespace quire {

/// find_or_download(), with its progress on stderr.
Result<std::string> locate(const std::string& path, HubContent content, const HubOptions& hub);

/// Of an adapter: the revision is the model's own.
Result<std::string> locate_adapter(const std::string& path, HubOptions hub);
/// The adapter with its folder found.
Result<AdapterSpec> locate_adapter(AdapterSpec spec, const HubOptions& hub);

}  // namespace quire

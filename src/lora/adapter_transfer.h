// An adapter's files as one string: how a rank hands an adapter that it has opened to ranks that must not depend on
// what the folder holds by then.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "lora/adapter_files.h"

namespace quire {

std::string pack_adapter_files(const AdapterFiles& files);

/// What pack_adapter_files() made, judged again as any adapter is. The result keeps `packed`'s memory.
Result<std::shared_ptr<const AdapterFiles>> unpack_adapter_files(std::string packed);

}  // namespace quire

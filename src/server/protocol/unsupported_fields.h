// Fields that other servers of this API know and quire does not act on.
#pragma once

#include "server/protocol/field_reader.h"

namespace quire {

enum class Endpoint : uint8_t { kCompletions, kChat };

/// Refuses every field that would change the answer and is not built, naming it; its neutral value (null, the default)
/// passes. Fields that do not change the answer (user, metadata, ...) are marked as known.
void refuse_unsupported(FieldReader& fields, Endpoint endpoint);

}  // namespace quire

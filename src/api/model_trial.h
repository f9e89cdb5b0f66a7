// A first request to a model that quire does not know, so that what is wrong with it shows at load.
#pragma once

#include "api/async_llm.h"

namespace quire {

/// Lets the model read a few tokens and give one. An Error says how that failed.
Status try_model(AsyncLlm& llm);

}  // namespace quire

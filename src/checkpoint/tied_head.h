// A checkpoint whose config ties the output head to the embedding and whose files hold a head all the same.
#pragma once

#include <string>

#include "base/result.h"
#include "checkpoint/weight_source.h"

namespace quire {

/// The tie decides, so the stored head is not read. Where it is another one than the embedding this gives a sentence to
/// log, else an empty text: whoever saved it may have meant it.
Result<std::string> judge_tied_head(const Checkpoint& checkpoint);

}  // namespace quire

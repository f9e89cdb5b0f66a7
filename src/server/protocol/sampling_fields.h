// The sampling parameters that completions and chat completions share.
#pragma once

#include "sampling/sampling_params.h"
#include "server/protocol/field_reader.h"

namespace quire {

struct RequestRules;

/// Reads them over the model's defaults. Mistakes of type are kept in `fields`; ranges are validate()'s. What differs
/// by endpoint (max_tokens' default, logprobs) is left out.
SamplingParams read_sampling_fields(FieldReader& fields, const RequestRules& rules);

}  // namespace quire

// Between the public types of quire/llm.h and quire's own.
#pragma once

#include "api/text_output.h"
#include "base/result.h"
#include "engine/engine_config.h"
#include "quire/llm.h"
#include "text/tokenizer.h"

namespace quire {

LLMError to_public(const Error& error);

/// Refuses names of types and policies that are not known.
Result<EngineConfig> to_engine_config(const LLMOptions& options);

/// What `output` adds to a request, as a delta. `tokenizer` gives the texts of logprobs.
LLM::RequestOutput to_public(TextOutput&& output, const Tokenizer& tokenizer);

/// Appends `delta` to what is known of its request.
void accumulate(LLM::RequestOutput& total, const LLM::RequestOutput& delta);

}  // namespace quire

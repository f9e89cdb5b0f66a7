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

/// What `output` adds to a request, as a delta of one of its choices; `finished` and the metrics are accumulate()'s.
/// `tokenizer` gives the texts of logprobs.
LLM::RequestOutput to_public(TextOutput&& output, const Tokenizer& tokenizer);

/// Appends `delta` to what is known of its request, whose outputs are as many as its choices, and tells the delta what
/// is known of the whole: whether all choices have finished, and the metrics.
void accumulate(LLM::RequestOutput& total, LLM::RequestOutput& delta);

}  // namespace quire

// The last stretch that completions and chat share: from a parsed request and its prompts to a running Generation.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/http/http_types.h"
#include "server/model_choice.h"
#include "server/response/response_format.h"
#include "server/server_context.h"

namespace quire {

/// `id_prefix` is "cmpl" or "chatcmpl". Takes the shared parts of the answer from the request, whose request_id is
/// chosen.
Result<ResponseInfo> make_response_info(const ServerContext& context, const ModelChoice& model,
                                        const GenerationFields& fields, const char* id_prefix,
                                        std::vector<std::vector<int32_t>> prompts);

/// Submits one engine request per prompt of the format's info.
void start_generation(ServerContext& context, const ModelChoice& model, const GenerationFields& fields,
                      std::unique_ptr<ResponseFormat> format, const std::shared_ptr<ResponseWriter>& writer);

}  // namespace quire

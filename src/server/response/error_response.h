// Errors in OpenAI's shape.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "server/http/http_types.h"

namespace quire {

/// 400, 401, 404, 503 or 500.
int http_status(ErrorKind kind);

/// {"error": {message, type, param, code}}: param is null where there is none; code is the HTTP status, and
/// `model_not_found` for an unknown model.
nlohmann::ordered_json error_body(const Error& error);
nlohmann::ordered_json error_body(int status, const std::string& message, const std::string& param = {},
                                  const std::string& code = {});

HttpResponse error_response(const Error& error);
HttpResponse error_response(int status, const std::string& message, const std::string& param = {},
                            const std::string& code = {});

}  // namespace quire

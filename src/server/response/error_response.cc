// Status codes and type names of errors, as vLLM gives them.
#include "server/response/error_response.h"

#include <nlohmann/json.hpp>

#include "server/protocol/json_input.h"

namespace quire {

using Json = nlohmann::ordered_json;

namespace {

const char* type_name(int status) {
  switch (status) {
    case 401:
      return "AuthenticationError";
    case 403:
      return "PermissionDeniedError";
    case 404:
      return "NotFoundError";
    case 500:
      return "InternalServerError";
    case 503:
      return "ServiceUnavailableError";
    default:
      return "BadRequestError";
  }
}

bool is_unknown_model(const Error& error) { return error.kind == ErrorKind::kNotFound && error.param == "model"; }

}  // namespace

int http_status(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
    case ErrorKind::kUnsupported:
      return 400;
    case ErrorKind::kUnauthorized:
      return 401;
    case ErrorKind::kNotFound:
      return 404;
    case ErrorKind::kUnavailable:
    case ErrorKind::kCancelled:
      return 503;
    case ErrorKind::kInternal:
      break;
  }
  return 500;
}

Json error_body(int status, const std::string& message, const std::string& param, const std::string& code) {
  Json error;
  error["message"] = message;
  error["type"] = type_name(status);
  error["param"] = param.empty() ? Json(nullptr) : Json(param);
  error["code"] = code.empty() ? Json(status) : Json(code);
  return Json{{"error", error}};
}

Json error_body(const Error& error) {
  return error_body(http_status(error.kind), error.message, error.param,
                    is_unknown_model(error) ? "model_not_found" : "");
}

HttpResponse error_response(int status, const std::string& message, const std::string& param, const std::string& code) {
  HttpResponse response;
  response.status = status;
  response.body = to_wire(error_body(status, message, param, code));
  if (status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (status == 503) response.headers.emplace_back("Retry-After", "1");
  return response;
}

HttpResponse error_response(const Error& error) {
  return error_response(http_status(error.kind), error.message, error.param,
                        is_unknown_model(error) ? "model_not_found" : "");
}

}  // namespace quire

// Lists against what a request asks for.
#include "server/cors.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/response/error_response.h"

namespace quire {

namespace {

constexpr const char* kAllMethods = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT";
/// The headers that pages may always send.
const std::vector<std::string> kSafeHeaders = {"Accept", "Accept-Language", "Content-Language", "Content-Type"};

bool has(const std::vector<std::string>& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

bool has_without_case(const std::vector<std::string>& list, std::string_view name) {
  return std::any_of(list.begin(), list.end(), [&](const std::string& item) { return equal_without_case(item, name); });
}

std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> names;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    std::string_view name = list.substr(0, comma);
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    if (!name.empty()) names.push_back(name);
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return names;
}

std::vector<std::string> with_safe_headers(std::vector<std::string> headers) {
  headers.insert(headers.end(), kSafeHeaders.begin(), kSafeHeaders.end());
  return headers;
}

}  // namespace

Cors::Cors(CorsOptions options)
    : options_(std::move(options)),
      any_origin_(has(options_.allowed_origins, "*")),
      any_method_(has(options_.allowed_methods, "*")),
      any_header_(has(options_.allowed_headers, "*")) {}

bool Cors::allows_origin(std::string_view origin) const { return any_origin_ || has(options_.allowed_origins, origin); }

HttpHeaders Cors::headers(const HttpRequest& request) const {
  const auto origin = request.header("Origin");
  if (!origin || options_.allowed_origins.empty()) return {};
  HttpHeaders headers;
  const bool names_it = !any_origin_ || options_.allow_credentials;  // "*" does not go with credentials
  if (names_it) headers.emplace_back("Vary", "Origin");
  if (!allows_origin(*origin)) return headers;
  headers.emplace_back("Access-Control-Allow-Origin", names_it ? std::string(*origin) : "*");
  if (options_.allow_credentials) headers.emplace_back("Access-Control-Allow-Credentials", "true");
  return headers;
}

/// What of a preflight is not allowed; empty: all of it is.
std::string Cors::refused(const HttpRequest& request, std::string_view method) const {
  if (!allows_origin(*request.header("Origin"))) return "origin";
  if (!any_method_ && !has(options_.allowed_methods, method)) return "method";
  const std::vector<std::string> allowed = with_safe_headers(options_.allowed_headers);
  for (const std::string_view name : split(request.header("Access-Control-Request-Headers").value_or(""))) {
    if (!any_header_ && !has_without_case(allowed, name)) return "headers";
  }
  return {};
}

std::optional<HttpResponse> Cors::preflight(const HttpRequest& request) const {
  const auto method = request.header("Access-Control-Request-Method");
  if (options_.allowed_origins.empty() || request.method != "OPTIONS" || !method || !request.header("Origin"))
    return std::nullopt;
  if (const std::string what = refused(request, *method); !what.empty())
    return error_response(400, fmt::format("Disallowed CORS {}.", what));
  HttpResponse response;
  response.content_type = "text/plain; charset=utf-8";
  response.body = "OK";
  const std::string names = any_header_
                                ? std::string(request.header("Access-Control-Request-Headers").value_or(""))
                                : fmt::format("{}", fmt::join(with_safe_headers(options_.allowed_headers), ", "));
  response.headers = {
      {"Access-Control-Allow-Methods",
       any_method_ ? std::string(kAllMethods) : fmt::format("{}", fmt::join(options_.allowed_methods, ", "))},
      {"Access-Control-Max-Age", "600"}};
  if (!names.empty()) response.headers.emplace_back("Access-Control-Allow-Headers", names);
  return response;
}

}  // namespace quire

#include "cli/http_url.h"

#include <fmt/format.h>

#include "cli/flag_values.h"

namespace quire::cli {

std::string HttpUrl::authority() const {
  const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return port == "80" ? name : name + ":" + port;
}

Result<HttpUrl> parse_http_url(std::string_view text) {
  const std::string original(text);
  const auto refuse = [&](std::string_view why) {
    return invalid_argument(fmt::format("'{}' {}: give an address such as http://127.0.0.1:8000/v1", original, why));
  };
  if (text.rfind("https://", 0) == 0) return refuse("is https, which is not built (plain http only)");
  if (text.rfind("http://", 0) == 0) {
    text.remove_prefix(7);
  } else if (text.find("://") != std::string_view::npos) {
    return refuse("is not an http address");
  }
  if (text.find_first_of("?#@ \t\r\n") != std::string_view::npos) return refuse("has a query, a user or spaces in it");
  HttpUrl url;
  const std::string_view authority = text.substr(0, text.find('/'));
  url.path = std::string(text.substr(authority.size()));
  while (!url.path.empty() && url.path.back() == '/') url.path.pop_back();
  std::string_view port;
  if (!authority.empty() && authority.front() == '[') {
    const size_t close = authority.find(']');
    if (close == std::string_view::npos) return refuse("has no closing bracket");
    url.host = std::string(authority.substr(1, close - 1));
    const std::string_view rest = authority.substr(close + 1);
    if (!rest.empty() && rest.front() != ':') return refuse("has something behind its closing bracket");
    if (!rest.empty()) port = rest.substr(1);
  } else {
    const size_t colon = authority.find(':');
    url.host = std::string(authority.substr(0, colon));
    if (colon != std::string_view::npos) port = authority.substr(colon + 1);
  }
  if (url.host.empty()) return refuse("names no host");
  if (!port.empty()) {
    if (!parse_whole_number(port, 1, 65535).ok()) return refuse("has a port that is not between 1 and 65535");
    url.port = std::string(port);
  }
  return url;
}

}  // namespace quire::cli

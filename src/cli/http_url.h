// The parts of an http:// address.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace quire::cli {

struct HttpUrl {
  std::string host;  ///< without the brackets of an IPv6 address
  std::string port = "80";
  std::string path;  ///< without a trailing '/'; "" or begins with '/'

  /// What the Host header says.
  std::string authority() const;
};

/// Plain http only: https is refused by name.
Result<HttpUrl> parse_http_url(std::string_view text);

}  // namespace quire::cli

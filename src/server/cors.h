// Cross-origin requests: which web pages may read the answers that a browser gets here.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/http_types.h"

namespace quire {

/// "*" in a list stands for all.
struct CorsOptions {
  std::vector<std::string> allowed_origins = {"*"};  ///< --allowed-origins; empty: none
  std::vector<std::string> allowed_methods = {"*"};  ///< --allowed-methods
  std::vector<std::string> allowed_headers = {"*"};  ///< --allowed-headers
  bool allow_credentials = false;                    ///< --allow-credentials
};

/// The Fetch standard's CORS protocol.
class Cors {
 public:
  explicit Cors(CorsOptions options);

  /// The answer to a preflight (OPTIONS with Origin and Access-Control-Request-Method): 200 where the page may, else
  /// 400. Nothing for other requests.
  std::optional<HttpResponse> preflight(const HttpRequest& request) const;
  /// What answers to a page's request carry.
  HttpHeaders headers(const HttpRequest& request) const;

 private:
  bool allows_origin(std::string_view origin) const;
  std::string refused(const HttpRequest& request, std::string_view method) const;

  const CorsOptions options_;
  const bool any_origin_, any_method_, any_header_;
};

}  // namespace quire

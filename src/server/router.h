// From method and path to a handler.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/http/http_types.h"

namespace quire {

/// Paths match byte for byte: no decoding, no collapsing of slashes, no trailing slash. So there is one spelling of
/// each route.
class Router {
 public:
  using Handler = std::function<void(HttpRequest, std::shared_ptr<ResponseWriter>)>;

  void add(std::string method, std::string path, Handler handler);
  /// Matches every path that begins with `prefix` and goes on.
  void add_prefix(std::string method, std::string prefix, Handler handler);

  /// Calls the route's handler; HEAD is served as GET and OPTIONS tells the methods. Unknown paths are 404, wrong
  /// methods 405.
  void handle(HttpRequest request, std::shared_ptr<ResponseWriter> writer) const;

 private:
  struct Route {
    std::string method, path;
    bool prefix = false;
    Handler handler;

    bool matches(const std::string& target) const;
  };
  std::vector<Route> routes_;
};

}  // namespace quire

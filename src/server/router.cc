// Route lookup.
#include "server/router.h"

#include <fmt/format.h>

#include <utility>

#include "server/response/error_response.h"

namespace quire {

bool Router::Route::matches(const std::string& target) const {
  return prefix ? target.size() > path.size() && target.starts_with(path) : target == path;
}

void Router::add(std::string method, std::string path, Handler handler) {
  routes_.push_back({std::move(method), std::move(path), false, std::move(handler)});
}

void Router::add_prefix(std::string method, std::string prefix, Handler handler) {
  routes_.push_back({std::move(method), std::move(prefix), true, std::move(handler)});
}

void Router::handle(HttpRequest request, std::shared_ptr<ResponseWriter> writer) const {
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  std::string allowed;
  for (const Route& route : routes_) {
    if (!route.matches(request.path)) continue;
    if (route.method == method) return route.handler(std::move(request), std::move(writer));
    allowed += (allowed.empty() ? "" : ", ") + route.method;
    if (route.method == "GET") allowed += ", HEAD";
  }
  if (allowed.empty()) {
    return writer->send(error_response(
        404, fmt::format("There is no route {} {}.", method.substr(0, 20), request.path.substr(0, 200))));
  }
  allowed += ", OPTIONS";
  HttpResponse response;
  if (method == "OPTIONS") {
    response.status = 204;
  } else {
    response = error_response(405, fmt::format("{} does not take {}; it takes {}.", request.path.substr(0, 200),
                                               method.substr(0, 20), allowed));
  }
  response.headers.emplace_back("Allow", allowed);
  writer->send(std::move(response));
}

}  // namespace quire

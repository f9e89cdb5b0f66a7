#include "server/http/bound_address.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

namespace quire {

namespace {

constexpr int kBacklog = 4096;

uint16_t port_of(const sockaddr_storage& address) {
  const bool is_ipv6 = address.ss_family == AF_INET6;
  return ntohs(is_ipv6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                       : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace

Result<BoundAddress> BoundAddress::bind(const std::string& host, uint16_t port) {
  addrinfo hints = {};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list); error != 0) {
    return invalid_argument(fmt::format("--host '{}' is no address or known name: {}.", host, gai_strerror(error)),
                            "host");
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> found(list, freeaddrinfo);
  BoundAddress bound(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP), found->ai_family, host);
  bound.port_ = port;
  if (bound.descriptor_ < 0) return bound.failure(errno);
  const int yes = 1;  // connections of an earlier server that are still being closed are no obstacle
  if (setsockopt(bound.descriptor_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      ::bind(bound.descriptor_, found->ai_addr, found->ai_addrlen) != 0) {
    return bound.failure(errno);
  }
  sockaddr_storage address = {};
  socklen_t length = sizeof address;
  if (getsockname(bound.descriptor_, reinterpret_cast<sockaddr*>(&address), &length) != 0) return bound.failure(errno);
  bound.port_ = port_of(address);
  return bound;
}

BoundAddress::BoundAddress(BoundAddress&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      family_(other.family_),
      host_(std::move(other.host_)),
      port_(other.port_) {}

BoundAddress& BoundAddress::operator=(BoundAddress&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(family_, other.family_);
  std::swap(host_, other.host_);
  std::swap(port_, other.port_);
  return *this;
}

BoundAddress::~BoundAddress() {
  if (descriptor_ >= 0) close(descriptor_);
}

Status BoundAddress::listen() {
  if (::listen(descriptor_, kBacklog) != 0) return failure(errno);
  return {};
}

int BoundAddress::release() { return std::exchange(descriptor_, -1); }

Error BoundAddress::failure(int error) const {
  return invalid_argument(fmt::format("Cannot listen on {} port {}: {}. Choose another with --host and --port.", host_,
                                      port_, std::strerror(error)),
                          "port");
}

}  // namespace quire

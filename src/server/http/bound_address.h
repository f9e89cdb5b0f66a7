// A TCP address taken before anybody may connect to it: a taken port is found out before a model is loaded.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <utility>

#include "base/result.h"

namespace quire {

/// A bound socket that does not listen yet: connections to it are refused. Not inherited by started programs.
class BoundAddress {
 public:
  /// Binds to a name's or number's first address; port 0 takes any that is free. Errors name the flag to change.
  static Result<BoundAddress> bind(const std::string& host, uint16_t port);
  ~BoundAddress();  ///< gives the address back, unless it was released
  BoundAddress(BoundAddress&& other) noexcept;
  BoundAddress& operator=(BoundAddress&& other) noexcept;

  uint16_t port() const { return port_; }
  bool is_ipv6() const { return family_ == AF_INET6; }
  /// Starts to accept connections: another process that bound the address as well may have come first.
  Status listen();
  /// The socket's descriptor, which is the caller's from now on.
  int release();

 private:
  BoundAddress(int descriptor, int family, std::string host)
      : descriptor_(descriptor), family_(family), host_(std::move(host)) {}
  Error failure(int error) const;

  int descriptor_;
  int family_;
  std::string host_;
  uint16_t port_ = 0;
};

}  // namespace quire

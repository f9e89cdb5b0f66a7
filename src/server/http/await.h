// How the server's coroutines wait.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace quire {

/// Errors are values: `const auto [error, ...] = co_await operation(..., kAwait);`.
inline constexpr auto kAwait = boost::asio::as_tuple(boost::asio::use_awaitable);

}  // namespace quire

// Names, ids and time.
#include "server/server_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>

namespace quire {

namespace {

constexpr size_t kMaxIdBytes = 256;

/// Ids go into response headers and logs: printable ASCII only.
bool is_sane_id(std::string_view id) {
  return !id.empty() && id.size() <= kMaxIdBytes &&
         std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c < 127; });
}

std::string random_id() {
  thread_local std::mt19937_64 generator{std::random_device{}()};
  return fmt::format("{:016x}{:016x}", generator(), generator());
}

}  // namespace

std::string choose_request_id(const std::string& from_body, std::optional<std::string_view> from_header) {
  if (is_sane_id(from_body)) return from_body;
  if (from_header && is_sane_id(*from_header)) return std::string(*from_header);
  return random_id();
}

int64_t unix_time() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace quire

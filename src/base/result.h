// Errors as values, used wherever user input (a file, a flag, a request) is judged.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace quire {

/// What kind of mistake an Error is; the server maps it to an HTTP status, the command line to an exit code.
enum class ErrorKind {
  kInvalidArgument,  ///< the caller's input is wrong (400)
  kUnauthorized,     ///< no or wrong API key (401)
  kNotFound,         ///< a named thing does not exist (404)
  kUnsupported,      ///< well-formed, but quire cannot do it (400, or a refusal at load)
  kUnavailable,      ///< the engine cannot take it now (503)
  kCancelled,        ///< the caller went away
  kInternal,         ///< a fault of quire's (500)
};

/// One sentence that says what is wrong, where, and what to do.
struct Error {  // NOLINT(clang-analyzer-core.uninitialized.Assign): it cannot follow a Result's variant
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;
  std::string param;  ///< the request field or flag at fault; empty where there is none
};

inline Error invalid_argument(std::string message, std::string param = {}) {
  return {ErrorKind::kInvalidArgument, std::move(message), std::move(param)};
}
inline Error not_found(std::string message, std::string param = {}) {
  return {ErrorKind::kNotFound, std::move(message), std::move(param)};
}
inline Error unsupported(std::string message, std::string param = {}) {
  return {ErrorKind::kUnsupported, std::move(message), std::move(param)};
}
inline Error internal_error(std::string message) { return {ErrorKind::kInternal, std::move(message), {}}; }

/// A value or an Error. Reading the wrong one is a programmer error and throws CheckFailure.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }

  T& value() & {
    QUIRE_CHECK(ok());
    return std::get<T>(state_);
  }
  const T& value() const& {
    QUIRE_CHECK(ok());
    return std::get<T>(state_);
  }
  T&& value() && {
    QUIRE_CHECK(ok());
    return std::get<T>(std::move(state_));
  }
  const Error& error() const {
    QUIRE_CHECK(!ok());
    return std::get<Error>(state_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Error> state_;
};

/// Success or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const {
    QUIRE_CHECK(error_.has_value());
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace quire

/// Returns the Error of `expression` (a Result) from the enclosing function, if it has one.
#define QUIRE_RETURN_IF_ERROR(expression)                       \
  do {                                                          \
    if (auto quire_status = (expression); !quire_status.ok()) { \
      return quire_status.error();                              \
    }                                                           \
  } while (false)

#define QUIRE_CONCAT_INNER(a, b) a##b
#define QUIRE_CONCAT(a, b) QUIRE_CONCAT_INNER(a, b)

/// Declares or assigns `target` from a Result, or returns its Error from the enclosing function.
#define QUIRE_ASSIGN_OR_RETURN(target, expression) \
  QUIRE_ASSIGN_OR_RETURN_INNER(QUIRE_CONCAT(quire_result_, __LINE__), target, expression)
#define QUIRE_ASSIGN_OR_RETURN_INNER(result, target, expression) \
  auto result = (expression);                                    \
  if (!result.ok()) return result.error();                       \
  target = std::move(result).value()

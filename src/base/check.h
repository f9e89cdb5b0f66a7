// Checks for programmer errors. They throw, never abort: the engine's loop and the server survive a failed check.
#pragma once

#include <stdexcept>
#include <string>

#include "base/api.h"

namespace quire {

/// Thrown by QUIRE_CHECK. No input may lead to one; the server answers 500 and logs it.
class QUIRE_API CheckFailure : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Thrown for a start-up failure that ends the program with one sentence and a non-zero exit code.
class QUIRE_API StartupError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[noreturn]] inline void check_failed(const char* condition, const char* file, int line) {
  throw CheckFailure(std::string("check failed: ") + condition + " at " + file + ":" + std::to_string(line));
}

}  // namespace quire

#define QUIRE_CHECK(condition)                               \
  do {                                                       \
    if (!(condition)) [[unlikely]] {                         \
      ::quire::check_failed(#condition, __FILE__, __LINE__); \
    }                                                        \
  } while (false)

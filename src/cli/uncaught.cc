#include "cli/uncaught.h"

#include <cstdio>
#include <cstdlib>
#include <exception>

namespace quire::cli {
namespace {

void say(const char* what) {
  std::fprintf(stderr,
               "quire: the program ends, since an exception left a noexcept function, a destructor or a thread, where "
               "nothing can catch it: %s.\n",
               what);
}

[[noreturn]] void end_program() {
  try {
    if (std::current_exception()) throw;
    say("std::terminate was called");
  } catch (const std::exception& error) {
    say(error.what());
  } catch (...) {
    say("something that is no std::exception");
  }
  std::_Exit(1);
}

}  // namespace

void explain_what_nobody_catches() { std::set_terminate(end_program); }

}  // namespace quire::cli

#include "cli/interrupt.h"

namespace quire::cli {
namespace {

volatile std::sig_atomic_t pressed = 0;

}  // namespace

InterruptGuard::InterruptGuard() {
  pressed = 0;
  struct sigaction action = {};
  action.sa_handler = [](int) { pressed = 1; };
  sigaction(SIGINT, &action, &previous_);
}

InterruptGuard::~InterruptGuard() { sigaction(SIGINT, &previous_, nullptr); }

bool InterruptGuard::interrupted() { return pressed != 0; }

}  // namespace quire::cli

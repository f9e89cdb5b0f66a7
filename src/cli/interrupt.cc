#include "cli/interrupt.h"

namespace quire::cli {
namespace {

volatile std::sig_atomic_t received = 0;

}  // namespace

InterruptGuard::InterruptGuard(std::initializer_list<int> signals) {
  received = 0;
  struct sigaction action = {};
  action.sa_handler = [](int number) { received = number; };
  for (const int number : signals) {
    struct sigaction previous = {};
    sigaction(number, &action, &previous);
    previous_.emplace_back(number, previous);
  }
}

InterruptGuard::~InterruptGuard() {
  for (const auto& [number, previous] : previous_) sigaction(number, &previous, nullptr);
}

int InterruptGuard::signal() { return received; }

}  // namespace quire::cli

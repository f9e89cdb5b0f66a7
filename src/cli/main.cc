// The program: everything is in cli/program.cc, so that tests can run it too.
#include <csignal>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "base/default_log.h"
#include "cli/program.h"
#include "cli/uncaught.h"
#include "engine/ranks/rank_server.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe or socket is an error of that write, not the end of the program
  quire::keep_log_off_stdout();
  quire::cli::explain_what_nobody_catches();
  if (const std::optional<int> ended = quire::run_as_rank()) return *ended;
  return quire::cli::run_program(std::vector<std::string>(argv + 1, argv + argc), std::cout, std::cerr);
}

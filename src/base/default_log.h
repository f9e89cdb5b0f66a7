// Where log lines go that nobody has chosen a place for.
#pragma once

namespace quire {

/// spdlog's own default logger writes to standard output, which belongs to the program that uses quire: sends its lines
/// to standard error. A default logger that the program chose (it has a name) stays. Safe to call again.
void keep_log_off_stdout();

}  // namespace quire

// The end of the program by an exception that nothing can catch.
#pragma once

namespace quire::cli {

/// From now on an exception that leaves a noexcept function, a destructor or a thread (of a model plugin, say) ends the
/// program with a sentence that says what was thrown, and exit code 1.
void explain_what_nobody_catches();

}  // namespace quire::cli

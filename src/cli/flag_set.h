// Flags of one command, declared in a line each, with errors that are one sentence and name the flag.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/result.h"
#include "tensor/dtype.h"

namespace CLI {
class App;
}

namespace quire::cli {

/// A command line that is wrong: what() is one sentence; the program prints it and exits with 2.
class FlagError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Thrown where a command has nothing more to do; the program ends with that exit code.
struct EndOfProgram {
  int exit_code = 0;
};

/// Takes a flag's text; its Error becomes "--flag: message".
using ValueSink = std::function<Status(const std::string& text)>;

ValueSink into(std::string* target);
ValueSink into(int64_t* target, int64_t minimum, int64_t maximum = std::numeric_limits<int64_t>::max());
ValueSink into(std::optional<int64_t>* target, int64_t minimum, int64_t maximum = std::numeric_limits<int64_t>::max());
ValueSink into(int* target, int minimum, int maximum = std::numeric_limits<int>::max());
ValueSink into(double* target, double minimum, double maximum = std::numeric_limits<double>::infinity());
ValueSink into(std::optional<DType>* target);  ///< parse_dtype_or_auto
ValueSink into_choice(std::string* target, std::vector<std::string> choices);
ValueSink into_size(std::optional<int64_t>* target, int64_t minimum);  ///< parse_size
ValueSink into_size(int64_t* target, int64_t minimum);

/// Adds flags to a CLI11 command. When a flag that takes one value is repeated, the last one counts, as with argparse.
class FlagSet {
 public:
  explicit FlagSet(CLI::App& app) : app_(app) {}

  /// Flags added from here on are listed under this heading of --help; "" hides them.
  FlagSet& group(std::string name);

  /// `names` is a comma-separated list ("--port,-p"); `label` stands for the value in --help.
  FlagSet& value(const std::string& names, const std::string& label, const std::string& help, ValueSink sink);
  /// A flag with one or more values, repeatable.
  FlagSet& list(const std::string& names, const std::string& label, const std::string& help,
                std::vector<std::string>* target);
  /// A flag with one value, repeatable: each use adds one.
  FlagSet& repeatable(const std::string& names, const std::string& label, const std::string& help,
                      std::vector<std::string>* target);
  /// A flag without a value.
  FlagSet& flag(const std::string& names, const std::string& help, bool* target);
  /// --name and --no-name; both together are refused.
  FlagSet& toggle(const std::string& name, const std::string& help, bool* target);
  /// A flag without a value whose use throws FlagError(sentence).
  FlagSet& refused(const std::string& names, std::string sentence);
  /// A positional argument, optional for CLI11: the command judges its absence.
  FlagSet& positional(const std::string& name, const std::string& help, std::string* target);

 private:
  CLI::App& app_;
  std::string group_;
};

}  // namespace quire::cli

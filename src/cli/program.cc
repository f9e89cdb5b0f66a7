#include "cli/program.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <numeric>
#include <ostream>
#include <utility>

#include "base/check.h"
#include "cli/command.h"
#include "cli/flag_set.h"
#include "cli/version.h"

namespace quire::cli {
namespace {

size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

/// Flags that --help shows, and the subcommands.
std::vector<std::string> known_words(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
  }
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    words.push_back(sub->get_name());
  return words;
}

[[noreturn]] void refuse_unknown(const CLI::App& app, const std::string& path, const std::string& argument) {
  const bool is_flag = argument.size() > 1 && argument[0] == '-';
  const std::string word = argument.substr(0, argument.find('='));
  const std::string near = nearest(word, known_words(app));
  const std::string hint =
      near.empty() ? fmt::format("'{} --help' lists what there is", path) : fmt::format("did you mean {}?", near);
  throw FlagError(fmt::format("{} '{}' is not known to '{}': {}{}", is_flag ? "The flag" : "The argument", word, path,
                              hint, near.empty() ? "." : ""));
}

/// Refuses what CLI11 left over, in the command at fault.
void check_leftovers(const CLI::App& app, const std::string& path) {
  const std::vector<std::string> left = app.remaining();
  const auto flag = std::find_if(left.begin(), left.end(), [](const std::string& a) { return a.starts_with('-'); });
  if (flag != left.end()) refuse_unknown(app, path, *flag);
  if (!left.empty()) refuse_unknown(app, path, left.front());
}

struct Program {
  CLI::App app{"quire: an engine for inference and serving of large language models.", "quire"};
  std::vector<Command> commands;
  std::vector<CLI::App*> groups;  ///< commands that only have subcommands

  Program() {
    app.set_version_flag("--version", "quire " + std::string(version()), "Print the version and end");
    app.set_help_flag("--help,-h", "Print this help and end");
    app.allow_extras()->require_subcommand(0);
    commands.push_back(add_serve_command(app));
    commands.push_back(add_pull_command(app));
    commands.push_back(add_chat_command(app));
    commands.push_back(add_complete_command(app));
    CLI::App& bench = add_group("bench", "Measure throughput, latency, a server, or the machine itself");
    commands.push_back(add_bench_throughput_command(bench));
    commands.push_back(add_bench_latency_command(bench));
    commands.push_back(add_bench_serve_command(bench));
    commands.push_back(add_bench_perplexity_command(bench));
    commands.push_back(add_bench_machine_command(bench));
    CLI::App& lora = add_group("lora", "Look into LoRA adapters, or merge one into its model");
    commands.push_back(add_lora_inspect_command(lora));
    commands.push_back(add_lora_merge_command(lora));
    commands.push_back(add_collect_env_command(app));
    for (Command& command : commands) {
      command.app->allow_extras();
      command.app->get_formatter()->column_width(42);
    }
  }

  CLI::App& add_group(const std::string& name, const std::string& help) {
    groups.push_back(app.add_subcommand(name, help));
    groups.back()->require_subcommand(0);
    groups.back()->allow_extras();
    return *groups.back();
  }

  int run(std::ostream& out) {
    check_leftovers(app, "quire");
    const CLI::App* named = &app;
    for (const CLI::App* group : groups) {
      if (!group->parsed()) continue;
      check_leftovers(*group, "quire " + group->get_name());
      named = group;
    }
    for (const Command& command : commands) {
      if (!command.app->parsed()) continue;
      const std::string prefix = named == &app ? "quire " : "quire " + named->get_name() + " ";
      check_leftovers(*command.app, prefix + command.app->get_name());
      return command.run();
    }
    out << named->help();
    return 2;
  }
};

/// CLI11's own complaints, as one sentence.
std::string sentence_of(const CLI::ParseError& error) {
  const std::string text = error.what();
  const size_t colon = text.find(':');
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && colon != std::string::npos) {
    return text.substr(0, colon) + " needs a value.";
  }
  return text + (text.empty() || text.back() == '.' ? "" : ".");
}

int report(std::ostream& err, const std::string& sentence, int code) {
  err << "quire: " << sentence << (sentence.empty() || sentence.back() == '.' || sentence.back() == '?' ? "" : ".")
      << std::endl;
  return code;
}

}  // namespace

std::vector<std::string> normalize_arguments(std::vector<std::string> arguments) {
  static const std::array<std::pair<std::string, std::string>, 6> kShort = {{{"-q", "--quantization"},
                                                                             {"-tp", "--tensor-parallel-size"},
                                                                             {"-pp", "--pipeline-parallel-size"},
                                                                             {"-dp", "--data-parallel-size"},
                                                                             {"-O", "--optimization-level"},
                                                                             {"-sc", "--speculative-config"}}};
  // chat's and complete's -q is another.
  const bool takes_quantization = !arguments.empty() && (arguments[0] == "serve" || arguments[0] == "bench");
  for (std::string& argument : arguments) {
    if (argument == "--") break;
    const size_t name_end = std::min(argument.find('='), argument.size());
    if (argument.starts_with("--")) {
      std::replace(argument.begin(), argument.begin() + static_cast<std::ptrdiff_t>(name_end), '_', '-');
      continue;
    }
    for (const auto& [short_name, long_name] : kShort) {
      if (short_name == "-q" && !takes_quantization) continue;
      if (argument.compare(0, name_end, short_name) == 0) {
        argument.replace(0, name_end, long_name);
        break;
      }
    }
    if (argument.size() == 3 && argument.rfind("-O", 0) == 0) argument = "--optimization-level=" + argument.substr(2);
  }
  return arguments;
}

std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

int run_program(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err) {
  try {
    Program program;
    std::vector<std::string> reversed = normalize_arguments(arguments);
    std::reverse(reversed.begin(), reversed.end());
    try {
      program.app.parse(reversed);
    } catch (const CLI::CallForHelp&) {
      out << program.app.help();
      return 0;
    } catch (const CLI::CallForVersion& version_text) {
      out << version_text.what() << std::endl;
      return 0;
    }
    return program.run(out);
  } catch (const EndOfProgram& end) {
    return end.exit_code;
  } catch (const FlagError& error) {
    return report(err, error.what(), 2);
  } catch (const CLI::ParseError& error) {
    return report(err, sentence_of(error), 2);
  } catch (const StartupError& error) {
    return report(err, error.what(), 1);
  } catch (const std::exception& error) {
    return report(err, fmt::format("an internal fault: {}", error.what()), 1);
  }
}

}  // namespace quire::cli

#include "cli/flag_set.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <utility>

#include "cli/command.h"
#include "cli/flag_values.h"

namespace quire::cli {
namespace {

/// The longest of "--port,-p", which messages use.
std::string display_name(const std::string& names) { return names.substr(0, names.find(',')); }

void deliver(const std::string& name, const ValueSink& sink, const std::string& text) {
  if (text.rfind("--", 0) == 0) throw FlagError(fmt::format("{} needs a value, but '{}' follows it.", name, text));
  const Status status = sink(text);
  if (!status.ok()) throw FlagError(fmt::format("{}: {}.", name, status.error().message));
}

/// Stores a Result's value, or hands its Error on.
template <typename Target, typename Value>
Status store(Target* target, Result<Value> value) {
  if (!value.ok()) return value.error();
  *target = std::move(value).value();
  return {};
}

}  // namespace

ValueSink into(std::string* target) {
  return [=](const std::string& text) {
    *target = text;
    return Status{};
  };
}

ValueSink into(int64_t* target, int64_t minimum, int64_t maximum) {
  return [=](const std::string& text) { return store(target, parse_whole_number(text, minimum, maximum)); };
}

ValueSink into(std::optional<int64_t>* target, int64_t minimum, int64_t maximum) {
  return [=](const std::string& text) { return store(target, parse_whole_number(text, minimum, maximum)); };
}

ValueSink into(int* target, int minimum, int maximum) {
  return [=](const std::string& text) -> Status {
    QUIRE_ASSIGN_OR_RETURN(const int64_t value, parse_whole_number(text, minimum, maximum));
    *target = static_cast<int>(value);
    return {};
  };
}

ValueSink into(double* target, double minimum, double maximum) {
  return [=](const std::string& text) { return store(target, parse_number(text, minimum, maximum)); };
}

ValueSink into(std::optional<DType>* target) {
  return [=](const std::string& text) { return store(target, parse_dtype_or_auto(text)); };
}

ValueSink into_choice(std::string* target, std::vector<std::string> choices) {
  return [target, choices = std::move(choices)](const std::string& text) -> Status {
    for (const std::string& choice : choices) {
      if (choice == text) {
        *target = text;
        return {};
      }
    }
    return invalid_argument(fmt::format("'{}' is not one of {}", text, fmt::join(choices, ", ")));
  };
}

ValueSink into_size(std::optional<int64_t>* target, int64_t minimum) {
  return [=](const std::string& text) -> Status {
    QUIRE_ASSIGN_OR_RETURN(const int64_t size, parse_size(text));
    if (size < minimum) return invalid_argument(fmt::format("{} is below the least value, {}", size, minimum));
    *target = size;
    return {};
  };
}

ValueSink into_size(int64_t* target, int64_t minimum) {
  return [=](const std::string& text) -> Status {
    std::optional<int64_t> size;
    QUIRE_RETURN_IF_ERROR(into_size(&size, minimum)(text));
    *target = *size;
    return {};
  };
}

FlagSet& FlagSet::group(std::string name) {
  group_ = std::move(name);
  return *this;
}

FlagSet& FlagSet::value(const std::string& names, const std::string& label, const std::string& help, ValueSink sink) {
  const std::string name = display_name(names);
  app_.add_option_function<std::string>(
          names, [name, sink = std::move(sink)](const std::string& text) { deliver(name, sink, text); }, help)
      ->type_name(label)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->group(group_);
  return *this;
}

namespace {

/// Adds each text of an option to `target`.
CLI::Option* add_texts(CLI::App& app, const std::string& names, const std::string& help,
                       std::vector<std::string>* target) {
  return app.add_option_function<std::vector<std::string>>(
      names,
      [name = display_name(names), target](const std::vector<std::string>& texts) {
        for (const std::string& text : texts) {
          deliver(
              name,
              [target](const std::string& value) {
                target->push_back(value);
                return Status{};
              },
              text);
        }
      },
      help);
}

}  // namespace

FlagSet& FlagSet::list(const std::string& names, const std::string& label, const std::string& help,
                       std::vector<std::string>* target) {
  add_texts(app_, names, help, target)->type_name(label)->group(group_);
  return *this;
}

FlagSet& FlagSet::repeatable(const std::string& names, const std::string& label, const std::string& help,
                             std::vector<std::string>* target) {
  add_texts(app_, names, help, target)->allow_extra_args(false)->type_name(label)->group(group_);
  return *this;
}

FlagSet& FlagSet::flag(const std::string& names, const std::string& help, bool* target) {
  app_.add_flag_callback(
          names, [target] { *target = true; }, help)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->group(group_);
  return *this;
}

FlagSet& FlagSet::toggle(const std::string& name, const std::string& help, bool* target) {
  const std::string negative = "--no-" + name.substr(2);
  const auto chosen = std::make_shared<std::optional<bool>>();
  const auto choose = [=](bool on) {
    if (chosen->value_or(on) != on) throw FlagError(fmt::format("{} and {} contradict each other.", name, negative));
    *chosen = on;
    *target = on;
  };
  app_.add_flag_callback(
          name, [=] { choose(true); }, help)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->group(group_);
  app_.add_flag_callback(
          negative, [=] { choose(false); }, "The opposite of " + name)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->group(group_);
  return *this;
}

FlagSet& FlagSet::refused(const std::string& names, std::string sentence) {
  app_.add_flag_callback(names, [sentence = std::move(sentence)] { throw FlagError(sentence); })->group(group_);
  return *this;
}

FlagSet& FlagSet::positional(const std::string& name, const std::string& help, std::string* target) {
  app_.add_option_function<std::string>(
          name, [target](const std::string& text) { *target = text; }, help)
      ->type_name("")
      ->group("Arguments");
  return *this;
}

CLI::App* add_subcommand(CLI::App& parent, const std::string& name, const std::string& help) {
  return parent.add_subcommand(name, help);
}

}  // namespace quire::cli

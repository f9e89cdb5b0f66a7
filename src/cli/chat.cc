// `quire chat` and `quire complete`: a conversation, or prompts continued, in the terminal.
#include <fmt/format.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/adapter_flags.h"
#include "cli/command.h"
#include "cli/engine_flags.h"
#include "cli/flag_set.h"
#include "cli/flag_values.h"
#include "cli/log.h"
#include "cli/openai_stream.h"
#include "cli/text_backend.h"

namespace quire::cli {
namespace {

struct Arguments {
  std::string url = "http://127.0.0.1:8000/v1";
  std::string model_name, api_key, quick, system_prompt;
  bool stats = false;
  TextOptions text;
  EngineArguments engine;
  LogArguments log;
};

void add_flags(FlagSet& flags, Arguments& a, bool chat) {
  flags.group("Server")
      .value("--url", "URL", "The server's API (default: http://127.0.0.1:8000/v1)", into(&a.url))
      .value("--model-name", "NAME", "Model to ask for (default: the first that the server lists)", into(&a.model_name))
      .value("--api-key", "KEY", "Key to send (default: VLLM_API_KEY, QUIRE_API_KEY or OPENAI_API_KEY)",
             into(&a.api_key));
  flags.group(chat ? "Conversation" : "Completion")
      .value("--quick,-q", "TEXT", "Send this one prompt, print the answer, and end", into(&a.quick));
  if (chat) flags.value("--system-prompt", "TEXT", "The system message", into(&a.system_prompt));
  flags
      .value("--max-tokens", "N", "Most tokens of an answer (default: the server's)",
             [&a](const std::string& text) -> Status {
               QUIRE_ASSIGN_OR_RETURN(a.text.max_tokens, parse_whole_number(text, 1));
               return {};
             })
      .value("--temperature", "T", "(default: the model's)",
             [&a](const std::string& text) -> Status {
               QUIRE_ASSIGN_OR_RETURN(a.text.temperature, parse_number(text, 0, 2));
               return {};
             })
      .flag("--stats", "Print tokens and times after each answer", &a.stats);
  flags.group("Model in this process")
      .value("--model", "PATH",
             "Load this model (or ORG/NAME of the hub) here, with the flags below, instead of asking a server",
             into(&a.engine.config.model));
  add_engine_flags(flags, a.engine);
  add_lora_path_flag(flags, a.text.lora);
  add_log_flags(flags, a.log);
}

std::unique_ptr<TextBackend> open_backend(Arguments& a) {
  if (a.text.lora.size() > 1) throw FlagError("--lora takes one adapter here.");
  if (!a.text.lora.empty() && a.engine.config.model.empty()) {
    throw FlagError("--lora loads an adapter onto --model PATH; a server's adapter is asked for with --model-name.");
  }
  if (!a.text.lora.empty()) a.engine.config.lora.enabled = true;
  if (!a.engine.config.model.empty()) {
    if (!a.model_name.empty()) throw FlagError("--model-name is a server's model, --model one to load here: give one.");
    check_engine_arguments(a.engine);
    return load_backend(a.engine, a.text);
  }
  auto backend = connect_backend(a.url, a.model_name, client_api_key(a.api_key), a.text);
  if (!backend.ok() && backend.error().kind == ErrorKind::kInvalidArgument) {
    throw FlagError(backend.error().message + ".");
  }
  if (!backend.ok()) throw StartupError(backend.error().message);
  return std::move(backend).value();
}

void print_stats(const GenerationStats& stats) {
  const double decoding = stats.seconds - stats.first_token_seconds;
  const double rate =
      stats.output_tokens > 1 && decoding > 0 ? static_cast<double>(stats.output_tokens - 1) / decoding : 0;
  std::cerr << fmt::format("[{} prompt tokens, {} output tokens, first after {:.0f} ms, then {:.1f} tok/s]\n",
                           stats.prompt_tokens, stats.output_tokens, stats.first_token_seconds * 1e3, rate);
}

/// The conversation so far and what the commands do to it.
class Conversation {
 public:
  explicit Conversation(std::string system) : system_(std::move(system)) { reset(); }

  void reset() {
    messages_ = nlohmann::ordered_json::array();
    if (!system_.empty()) add("system", system_);
  }
  void set_system(std::string system) {
    system_ = std::move(system);
    reset();
  }
  void add(const char* role, const std::string& content) {
    messages_.push_back({{"role", role}, {"content", content}});
  }
  void drop_last() { messages_.erase(messages_.size() - 1); }
  const nlohmann::ordered_json& messages() const { return messages_; }

 private:
  std::string system_;
  nlohmann::ordered_json messages_;
};

void print_chat_help() {
  std::cerr
      << "/quit or Ctrl-D ends, /reset forgets the conversation, /system TEXT sets the system message (and forgets), "
         "/help prints this; Ctrl-C ends an answer\n";
}

/// True when the line was a command; `quit` is set by /quit.
bool run_chat_command(const std::string& line, Conversation& conversation, bool& quit) {
  if (line.empty() || line.front() != '/') return false;
  const size_t space = line.find(' ');
  const std::string command = line.substr(0, space);
  if (command == "/quit" || command == "/exit") {
    quit = true;
  } else if (command == "/reset") {
    conversation.reset();
    std::cerr << "The conversation begins anew.\n";
  } else if (command == "/system") {
    conversation.set_system(space == std::string::npos ? "" : line.substr(space + 1));
    std::cerr << "The system message is set, the conversation begins anew.\n";
  } else {
    if (command != "/help") std::cerr << fmt::format("'{}' is no command. ", command);
    print_chat_help();
  }
  return true;
}

bool prompt_line(std::string& line) {
  if (isatty(STDIN_FILENO) == 1) std::cerr << "> " << std::flush;
  if (std::getline(std::cin, line)) return true;
  if (isatty(STDIN_FILENO) == 1) std::cerr << "\n";
  return false;
}

/// Prints the answer as it comes; false after a failure, which is printed too.
template <typename Generate>
bool print_answer(const Arguments& a, Generate&& generate) {
  const auto sink = [](const std::string& text) { std::cout << text << std::flush; };
  const Result<GenerationStats> stats = generate(sink);
  std::cout << std::endl;
  if (!stats.ok()) {
    std::cerr << "quire: " << stats.error().message << "\n";
    return false;
  }
  if (a.stats) print_stats(*stats);
  return true;
}

bool answer_turn(const Arguments& a, TextBackend& backend, Conversation& conversation, const std::string& text) {
  conversation.add("user", text);
  std::string answer;
  const bool ok = print_answer(a, [&](const TextSink& sink) {
    return backend.chat(conversation.messages(), [&](const std::string& part) {
      answer += part;
      sink(part);
    });
  });
  if (ok) {
    conversation.add("assistant", answer);
  } else {
    conversation.drop_last();  // the next turn must not follow a question without an answer
  }
  return ok;
}

int run_chat(Arguments& a) {
  const LogSetup log(a.log);
  const std::unique_ptr<TextBackend> backend = open_backend(a);
  Conversation conversation(a.system_prompt);
  if (!a.quick.empty()) return answer_turn(a, *backend, conversation, a.quick) ? 0 : 1;
  std::cerr << "Model: " << backend->model_name() << "\n";
  print_chat_help();
  bool quit = false;
  for (std::string line; !quit && prompt_line(line);) {
    if (line.empty() || run_chat_command(line, conversation, quit)) continue;
    answer_turn(a, *backend, conversation, line);
  }
  return 0;
}

int run_complete(Arguments& a) {
  const LogSetup log(a.log);
  const std::unique_ptr<TextBackend> backend = open_backend(a);
  const auto complete = [&](const std::string& prompt) {
    return print_answer(a, [&](const TextSink& sink) { return backend->complete(prompt, sink); });
  };
  if (!a.quick.empty()) return complete(a.quick) ? 0 : 1;
  std::cerr << "Model: " << backend->model_name() << "\nEach line is a prompt to continue; /quit or Ctrl-D ends.\n";
  for (std::string line; prompt_line(line) && line != "/quit";) {
    if (!line.empty()) complete(line);
  }
  return 0;
}

Command add_command(CLI::App& parent, const char* name, const char* help, int (*run)(Arguments&), bool chat) {
  CLI::App* const app = add_subcommand(parent, name, help);
  const auto arguments = std::make_shared<Arguments>();
  arguments->log.level = "warning";
  FlagSet flags(*app);
  add_flags(flags, *arguments, chat);
  return {app, [arguments, run] { return run(*arguments); }};
}

}  // namespace

Command add_chat_command(CLI::App& parent) {
  return add_command(parent, "chat", "Talk to a model in the terminal", run_chat, true);
}

Command add_complete_command(CLI::App& parent) {
  return add_command(parent, "complete", "Continue prompts in the terminal", run_complete, false);
}

}  // namespace quire::cli

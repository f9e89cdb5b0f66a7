#include "cli/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "cli/unbuilt_flags.h"
#include "cli/version.h"

namespace quire::cli {
namespace {

struct Outcome {
  int code;
  std::string out, err;
};

Outcome run(const std::vector<std::string>& arguments) {
  std::ostringstream out;
  std::ostringstream err;
  const int code = run_program(arguments, out, err);
  return {code, out.str(), err.str()};
}

struct Refusal {
  std::vector<std::string> arguments;
  std::string sentence;
};

TEST(Program, WrongCommandLinesEndWithOneSentenceAndTwo) {
  const std::vector<Refusal> cases = {
      {{"serv"}, "The argument 'serv' is not known to 'quire': did you mean serve?"},
      {{"--hlep"}, "The flag '--hlep' is not known to 'quire': did you mean --help?"},
      {{"serve", "m", "--max-model-length", "4"},
       "The flag '--max-model-length' is not known to 'quire serve': did you mean --max-model-len?"},
      {{"serve", "m", "--blok-size=16"},
       "The flag '--blok-size' is not known to 'quire serve': did you mean --block-size?"},
      {{"serve", "--qqqqqqqqqqqqqqqqqqqqqqq"},
       "The flag '--qqqqqqqqqqqqqqqqqqqqqqq' is not known to 'quire serve': 'quire serve --help' lists what there is."},
      {{"serve", "a", "b"},
       "The argument 'b' is not known to 'quire serve': 'quire serve --help' lists what there is."},
      {{"bench", "latncy"}, "The argument 'latncy' is not known to 'quire bench': did you mean latency?"},
      {{"serve"},
       "'quire serve' needs a model: quire serve PATH (a Hugging Face folder or a .gguf file) or ORG/NAME (of the "
       "hub)."},
      {{"serve", "a", "--model", "b"}, "MODEL is given twice: 'a' and --model 'b'."},
      {{"serve", "m", "--port", "http"}, "--port: 'http' is not a whole number."},
      {{"serve", "m", "--port", "70000"}, "--port: 70000 is not between 0 and 65535."},
      {{"serve", "m", "--port"}, "--port needs a value."},
      {{"serve", "m", "--host", "--port", "80"}, "--host needs a value, but '--port' follows it."},
      {{"serve", "m", "--block-size", "20"}, "--block-size: 20 is not a multiple of 16."},
      {{"serve", "m", "--dtype", "int8"},
       "--dtype: 'int8' is not one of auto, float32, float, bfloat16, float16, half."},
      {{"serve", "m", "--scheduling-policy", "lifo"}, "--scheduling-policy: 'lifo' is not one of fcfs, priority."},
      {{"serve", "m", "--api-key", ""}, "--api-key: an empty key would let everybody in; leave the flag out for that."},
      {{"serve", "m", "--enable-prefix-caching", "--no-enable-prefix-caching"},
       "--enable-prefix-caching and --no-enable-prefix-caching contradict each other."},
      {{"serve", "m", "--max-num-batched-tokens", "8", "--max-num-seqs", "9"},
       "--max-num-batched-tokens 8 is less than --max-num-seqs 9: each running request needs a token of every step."},
      {{"serve", "m", "--no-enable-chunked-prefill", "--max-num-batched-tokens", "256", "--max-model-len", "1k"},
       "--no-enable-chunked-prefill needs --max-num-batched-tokens of at least --max-model-len: 256 is less than "
       "1000."},
      {{"serve", "m", "--long-prefill-token-threshold", "2K", "--max-model-len", "1K"},
       "--long-prefill-token-threshold 2048 is more than --max-model-len 1024."},
      {{"serve", "m", "-dp", "2"},
       "--data-parallel-size 2 is not built: a model is divided by --tensor-parallel-size and "
       "--pipeline-parallel-size."},
      {{"serve", "m", "-tp", "0"}, "--tensor-parallel-size: 0 is not between 1 and 64."},
      {{"serve", "m", "--lora-target-modules", "q_proj"},
       "--lora-target-modules q_proj is not built: an adapter is used on every module that it has weights for."},
      {{"serve", "m", "--max-loras", "2"}, "--max-loras needs --enable-lora."},
      {{"serve", "m", "--lora-modules", "a=b"}, "--lora-modules needs --enable-lora."},
      {{"serve", "m", "--lora-dir", "d"}, "--lora-dir needs --enable-lora."},
      {{"serve", "m", "--enable-lora", "--max-loras", "0"}, "--max-loras: 0 is below the least value, 1."},
      {{"serve", "m", "--enable-lora", "--max-loras", "4", "--max-cpu-loras", "2"},
       "--max-cpu-loras 2 is less than --max-loras 4: a step's adapters must all be in memory."},
      {{"serve", "m", "--enable-lora", "--lora-dtype", "int8"},
       "--lora-dtype: 'int8' is not one of auto, float32, float, bfloat16, float16, half."},
      {{"serve", "m", "--lora-dtype", "float16"}, "--lora-dtype needs --enable-lora."},
      {{"serve", "m", "--enable-lora", "--lora-modules", "name"}, "--lora-modules: 'name' is not NAME=PATH."},
      {{"serve", "m", "--enable-lora", "--lora-modules", R"({"name": "a"})"},
       R"(--lora-modules: {"name": "a"} lacks name or path: give NAME=PATH or JSON such as {"name": "a", "path": "/adapters/a"}.)"},
      {{"chat", "--lora", "p"},
       "--lora loads an adapter onto --model PATH; a server's adapter is asked for with --model-name."},
      {{"serve", "--gpu_memory_utilization", "0.9", "m"},
       "--gpu-memory-utilization 0.9 does not apply: quire computes on the CPU, so give the cache's size with "
       "--kv-cache-memory-bytes."},
      {{"bench", "serve", "--base-url", "https://h"},
       "--base-url: 'https://h' is https, which is not built (plain http only): give an address such as "
       "http://127.0.0.1:8000/v1."},
      {{"bench", "latency"}, "The benchmark needs a model: give one with --model PATH."},
      {{"chat", "--model", "m", "--model-name", "n"},
       "--model-name is a server's model, --model one to load here: give one."},
  };
  for (const Refusal& row : cases) {
    const Outcome outcome = run(row.arguments);
    EXPECT_EQ(outcome.err, "quire: " + row.sentence + "\n");
    EXPECT_EQ(outcome.code, 2) << row.sentence;
    EXPECT_EQ(outcome.out, "");
  }
}

TEST(Program, ChatWithoutAServerSaysHowToStartOne) {
  const Outcome outcome = run({"chat", "--url", "http://127.0.0.1:1/v1", "-q", "hi"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, testing::HasSubstr("start a server with 'quire serve MODEL'"));
}

TEST(Program, VersionIsTheProjects) {
  EXPECT_EQ(run({"--version"}).out, "quire " + std::string(version()) + "\n");
  std::ifstream file(std::string(QUIRE_TESTS_DIR) + "/../CMakeLists.txt");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_THAT(text, testing::HasSubstr("project(quire VERSION " + std::string(version()) + " "));
}

TEST(Program, HelpListsCommandsAndGroups) {
  const Outcome all = run({"--help"});
  EXPECT_EQ(all.code, 0);
  for (const char* name : {"serve", "chat", "complete", "bench", "collect-env"}) {
    EXPECT_THAT(all.out, testing::HasSubstr(name));
  }
  const Outcome serve = run({"serve", "--help"});
  EXPECT_EQ(serve.code, 0);
  for (const char* heading : {"Server:", "Model:", "KV cache:", "Scheduler:", "LoRA:", "Log:"}) {
    EXPECT_THAT(serve.out, testing::HasSubstr(heading));
  }
  EXPECT_THAT(serve.out, testing::Not(testing::HasSubstr("--data-parallel-size")));
}

TEST(Program, EveryVisibleFlagIsInTheDocumentation) {
  std::ifstream file(std::string(QUIRE_TESTS_DIR) + "/../docs/CLI.md");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::vector<std::vector<std::string>> commands = {
      {"serve"},           {"chat"}, {"complete"}, {"bench", "serve"}, {"bench", "latency"}, {"bench", "throughput"},
      {"bench", "machine"}};
  for (std::vector<std::string> command : commands) {
    command.push_back("--help");
    std::istringstream help(run(command).out);
    for (std::string line; std::getline(help, line);) {
      const size_t begin = line.find("--");
      if (begin == std::string::npos || line.find_first_not_of(" ") + 3 < begin) continue;
      const std::string flag = line.substr(begin, line.find_first_of(" ,", begin) - begin);
      EXPECT_THAT(text, testing::HasSubstr("`" + flag)) << command.front();
    }
  }
}

TEST(Program, CommandWithoutItsSubcommandPrintsHelp) {
  EXPECT_THAT(run({}).out, testing::HasSubstr("serve"));
  EXPECT_THAT(run({"bench"}).out, testing::HasSubstr("latency"));
  EXPECT_EQ(run({"bench"}).code, 2);
}

TEST(NormalizeArguments, TakesVllmsSpellings) {
  EXPECT_EQ(normalize_arguments({"--max_model_len=1_0", "a_b", "-tp", "1", "-O3", "--", "--a_b"}),
            (std::vector<std::string>{"--max-model-len=1_0", "a_b", "--tensor-parallel-size", "1",
                                      "--optimization-level=3", "--", "--a_b"}));
}

TEST(UnbuiltFlags, EachHasAReasonUnlessItChangesNothing) {
  for (const auto table : {unbuilt_engine_flags(), unbuilt_server_flags()}) {
    for (const UnbuiltFlag& row : table) {
      EXPECT_TRUE(!row.reason.empty() || !row.neutral.empty()) << row.name;
    }
  }
}

}  // namespace
}  // namespace quire::cli

// embedder MODEL PLUGIN TOKEN_ID...: prints 12 greedy token ids.
#include <quire/llm.h>

#include <cstdlib>
#include <iostream>
#include <vector>

int main(int argc, char** argv) {
  quire::LLMOptions options;
  options.model = argv[1];
  options.model_plugins = {argv[2]};
  options.dtype = "float32";
  options.kv_cache_memory_bytes = 64 << 20;
  quire::Expected<quire::LLM> llm = quire::LLM::create(options);
  if (!llm) {
    std::cerr << llm.error().message << "\n";
    return 1;
  }
  std::vector<int32_t> prompt;
  for (int i = 3; i < argc; ++i) prompt.push_back(std::atoi(argv[i]));
  quire::SamplingParams params;
  params.temperature = 0;
  params.max_tokens = 12;
  params.ignore_eos = true;
  const auto outputs = llm->generate({quire::LLM::Prompt(prompt)}, params);
  if (!outputs) {
    std::cerr << outputs.error().message << "\n";
    return 1;
  }
  for (const int32_t id : (*outputs)[0].outputs[0].token_ids) std::cout << id << "\n";
}

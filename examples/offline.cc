// Offline generation with the library: offline MODEL PROMPT...
#include <iostream>
#include <vector>

#include "quire/llm.h"

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: offline MODEL PROMPT...\n";
    return 2;
  }
  quire::LLMOptions options;
  options.model = argv[1];
  quire::Expected<quire::LLM> llm = quire::LLM::create(options);
  if (!llm) {
    std::cerr << llm.error().message << "\n";
    return 1;
  }
  quire::SamplingParams params = llm->get_default_sampling_params();
  params.max_tokens = 64;
  const std::vector<quire::LLM::Prompt> prompts(argv + 2, argv + argc);
  const auto outputs = llm->generate(prompts, params);
  if (!outputs) {
    std::cerr << outputs.error().message << "\n";
    return 1;
  }
  for (const quire::LLM::RequestOutput& output : *outputs) {
    std::cout << *output.prompt << output.outputs[0].text << "  [" << output.outputs[0].finish_reason << "]\n";
  }
}

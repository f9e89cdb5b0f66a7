// Any text as config.json and as generation_config.json.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "checkpoint/model_config_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)quire::judge_model_config(text, "", "input").ok();
  (void)quire::judge_model_config(R"({"architectures":["LlamaForCausalLM"]})", text, "input").ok();
  return 0;
}

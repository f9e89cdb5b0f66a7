// Any bytes as a GGUF file: opened, its metadata judged as a config, then every tensor read.
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "checkpoint/gguf_config.h"
#include "checkpoint/gguf_source.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto file = quire::GgufFile::parse(std::as_bytes(std::span(data, size)), "input");
  if (!file.ok()) return 0;
  for (const auto key : file->keys()) {
    (void)file->find<std::vector<std::string_view>>(key).ok();
    (void)file->find<std::vector<double>>(key).ok();
    (void)file->find<int64_t>(key).ok();
  }
  quire::ModelConfig config;
  config.model_type = "llama";
  config.head_dim = 4;
  if (auto judged = quire::gguf_model_config(*file); judged.ok()) config = std::move(judged).value().config;
  const auto source = quire::make_gguf_source(std::move(file).value(), config);
  if (!source.ok()) return 0;
  std::vector<float> scratch;
  for (const quire::WeightInfo& weight : (*source)->tensors()) {
    (void)(*source)->read_rows(weight, 0, weight.rows(), scratch).ok();
  }
  return 0;
}

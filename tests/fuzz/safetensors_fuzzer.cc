// Any bytes as a safetensors file: opened, then every tensor read.
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "checkpoint/safetensors_source.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto file = quire::SafetensorsFile::parse(std::as_bytes(std::span(data, size)), "input");
  if (!file.ok()) return 0;
  std::vector<quire::SafetensorsFile> files;
  files.push_back(std::move(file).value());
  const auto source = quire::make_safetensors_source(std::move(files), "input");
  if (!source.ok()) return 0;
  std::vector<float> scratch;
  for (const quire::WeightInfo& weight : (*source)->tensors()) {
    (void)(*source)->read_rows(weight, 0, weight.rows(), scratch).ok();
  }
  return 0;
}

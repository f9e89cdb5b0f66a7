// Any text as adapter_config.json and any bytes as the adapter's weights: the input is the config, a byte 0xff, and the
// weights. Without that byte it is a config for weights that are well-formed.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/safetensors_source.h"
#include "lora/adapter_files.h"

namespace {

/// A pair for one module: what most configs can be held against.
std::string well_formed_weights() {
  std::string header =
      R"({"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
      R"("base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight":{"dtype":"F32","shape":[2,2],"data_offsets":[16,32]}})";
  std::string file;
  for (size_t i = 0; i < 8; ++i) file += static_cast<char>((header.size() >> (8 * i)) & 0xff);
  return file + header + std::string(32, '\0');
}

void open(std::string_view config, std::span<const std::byte> weights) {
  auto file = quire::SafetensorsFile::parse(weights, "input");
  if (!file.ok()) return;
  std::vector<quire::SafetensorsFile> files;
  files.push_back(std::move(file).value());
  auto source = quire::make_safetensors_source(std::move(files), "input");
  if (!source.ok()) return;
  const auto adapter = quire::AdapterFiles::parse(config, "adapter_config.json", std::move(source).value());
  if (!adapter.ok()) return;
  (void)(*adapter)->max_rank();
  (void)(*adapter)->stored_bytes();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string kWeights = well_formed_weights();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t split = text.find('\xff');
  if (split == std::string_view::npos) {
    open(text, std::as_bytes(std::span(kWeights.data(), kWeights.size())));
  } else {
    open(text.substr(0, split), std::as_bytes(std::span(data, size)).subspan(split + 1));
  }
  return 0;
}

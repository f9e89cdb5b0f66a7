// Any text as adapter_config.json and any bytes as the adapter's weights: the input is the config, a byte 0xff, and the
// weights. Without that byte it is a config for weights that are well-formed. An adapter that is read is packed and
// read again, and merged into two small models, one of them with a head that is its embedding.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "checkpoint/safetensors_source.h"
#include "lora/adapter_files.h"
#include "lora/adapter_merge.h"
#include "lora/adapter_transfer.h"

namespace {

using Shape = std::vector<int64_t>;

/// A safetensors file of float32 tensors: zeros with a one here and there.
std::string file_of(const std::vector<std::pair<std::string, Shape>>& tensors) {
  std::string header = "{", data;
  for (const auto& [name, shape] : tensors) {
    std::string sizes;
    size_t count = 1;
    for (const int64_t size : shape) {
      sizes += (sizes.empty() ? "" : ",") + std::to_string(size);
      count *= static_cast<size_t>(size);
    }
    const size_t begin = data.size();
    for (size_t i = 0; i < count; ++i) data += i % 3 == 0 ? std::string("\0\0\x80\x3f", 4) : std::string(4, '\0');
    header += (header.size() > 1 ? ",\"" : "\"") + name + R"(":{"dtype":"F32","shape":[)" + sizes +
              R"(],"data_offsets":[)" + std::to_string(begin) + "," + std::to_string(data.size()) + "]}";
  }
  header += "}";
  std::string file;
  for (size_t i = 0; i < 8; ++i) file += static_cast<char>((header.size() >> (8 * i)) & 0xff);
  return file + header + data;
}

/// `bytes` must outlive it.
quire::Result<std::unique_ptr<quire::WeightSource>> source_of(std::span<const std::byte> bytes) {
  auto file = quire::SafetensorsFile::parse(bytes, "input");
  if (!file.ok()) return file.error();
  std::vector<quire::SafetensorsFile> files;
  files.push_back(std::move(file).value());
  return quire::make_safetensors_source(std::move(files), "input");
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

/// What corpus and dictionary have modules of.
const quire::WeightSource& base_weights() {
  const std::string layer = "model.layers.0.";
  static const std::string file = file_of({{"model.embed_tokens.weight", {3, 2}},
                                           {layer + "self_attn.q_proj.weight", {2, 2}},
                                           {layer + "self_attn.q_proj.bias", {2}},
                                           {layer + "mlp.down_proj.weight", {2, 4}},
                                           {layer + "input_layernorm.weight", {2}},
                                           {"model.norm.weight", {2}},
                                           {"lm_head.weight", {3, 2}}});
  static const std::unique_ptr<quire::WeightSource> source = std::move(source_of(bytes_of(file))).value();
  return *source;
}

void merge(const quire::AdapterFiles& adapter, bool tied_head) {
  static quire::ThreadPool pool({1, false, {}});
  const quire::AdapterBase base(base_weights(), tied_head);
  const auto plan = quire::plan_merge(adapter, base);
  if (!plan.ok()) return;
  for (const quire::MergedTensor& tensor : plan->tensors) {
    size_t written = 0;
    const quire::Status status =
        quire::write_merged_tensor(tensor, adapter, base, pool, [&](std::span<const std::byte> bytes) {
          written += bytes.size();
          return quire::Status();
        });
    if (status.ok() && written != tensor.out.bytes) __builtin_trap();
  }
}

void open(std::string_view config, std::span<const std::byte> weights) {
  auto source = source_of(weights);
  if (!source.ok()) return;
  const auto adapter = quire::AdapterFiles::parse(config, "adapter_config.json", std::move(source).value());
  if (!adapter.ok()) return;
  (void)(*adapter)->max_rank();
  const auto again = quire::unpack_adapter_files(quire::pack_adapter_files(**adapter));
  if (!again.ok() || (*again)->stored_bytes() != (*adapter)->stored_bytes()) __builtin_trap();
  for (const bool tied_head : {false, true}) merge(**adapter, tied_head);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string pair = "base_model.model.model.layers.0.self_attn.q_proj.lora_";
  static const std::string kWeights = file_of({{pair + "A.weight", {2, 2}}, {pair + "B.weight", {2, 2}}});
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t split = text.find('\xff');
  if (split == std::string_view::npos) {
    open(text, bytes_of(kWeights));
  } else {
    open(text.substr(0, split), std::as_bytes(std::span(data, size)).subspan(split + 1));
  }
  return 0;
}

// Adapters made for tests: a config with fields changed at will, and tensors of chosen names and shapes.
#pragma once

#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/test_files.h"
#include "lora/adapter_files.h"
#include "tensor/convert.h"

namespace quire::test {

/// Starts as r=2, lora_alpha=4 on target_modules q_proj and v_proj, without tensors.
class AdapterBuilder {
 public:
  AdapterBuilder() {
    config_ = {{"peft_type", "LORA"},
               {"task_type", "CAUSAL_LM"},
               {"base_model_name_or_path", "tiny"},
               {"r", 2},
               {"lora_alpha", 4},
               {"target_modules", {"q_proj", "v_proj"}}};
  }

  AdapterBuilder& field(const std::string& key, nlohmann::ordered_json value) {
    config_[key] = std::move(value);
    return *this;
  }
  AdapterBuilder& without(const std::string& key) {
    config_.erase(key);
    return *this;
  }

  /// Values are small numbers that depend on `seed`; equal seeds and shapes give equal tensors.
  AdapterBuilder& tensor(const std::string& name, std::vector<int64_t> shape, int seed = 1, std::string dtype = "F32") {
    size_t count = 1;
    for (const int64_t dimension : shape) count *= static_cast<size_t>(dimension);
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i)
      values[i] = static_cast<float>((static_cast<int>(i) * 7 + seed * 13) % 17 - 8) / 16;
    return tensor(name, std::move(shape), values, std::move(dtype));
  }
  AdapterBuilder& tensor(const std::string& name, std::vector<int64_t> shape, const std::vector<float>& values,
                         std::string dtype = "F32") {
    std::string data;
    for (const float value : values) {
      if (dtype == "F32") {
        data += raw(value);
      } else {
        data += raw(dtype == "F16" ? float_to_float16(value) : float_to_bfloat16(value));
      }
    }
    tensors_[name] = {std::move(dtype), std::move(shape), std::move(data)};
    return *this;
  }
  AdapterBuilder& without_tensor(const std::string& name) {
    tensors_.erase(name);
    return *this;
  }

  /// A and B of a linear: [rank, 8] and [8, rank].
  AdapterBuilder& pair(const std::string& module, int64_t rank = 2, const std::string& name = "") {
    const std::string middle = name.empty() ? "" : "." + name;
    return tensor(module + ".lora_A" + middle + ".weight", {rank, 8})
        .tensor(module + ".lora_B" + middle + ".weight", {8, rank}, 2);
  }

  std::string config_text() const { return config_.dump(); }

  std::string weights() const {
    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    std::string data;
    for (const auto& [name, tensor] : tensors_) {
      header[name] = {{"dtype", tensor.dtype},
                      {"shape", tensor.shape},
                      {"data_offsets", {data.size(), data.size() + tensor.data.size()}}};
      data += tensor.data;
    }
    return safetensors(header.dump(), data);
  }

  void write(const TemporaryFolder& folder) const {
    folder.write("adapter_config.json", config_text());
    folder.write("adapter_model.safetensors", weights());
  }

  Result<std::shared_ptr<const AdapterFiles>> open() const {
    TemporaryFolder folder;
    write(folder);
    return AdapterFiles::open(folder.path());
  }

  /// The message of the refusal, or "" when it opens.
  std::string refusal() const {
    const auto opened = open();
    return opened.ok() ? "" : opened.error().message;
  }

 private:
  struct Tensor {
    std::string dtype;
    std::vector<int64_t> shape;
    std::string data;
  };
  nlohmann::ordered_json config_;
  std::map<std::string, Tensor> tensors_;
};

inline const AdapterModule* find_module(const AdapterFiles& files, const std::string& path) {
  for (const AdapterModule& module : files.modules()) {
    if (module.path == path) return &module;
  }
  return nullptr;
}

}  // namespace quire::test

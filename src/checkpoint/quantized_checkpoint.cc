#include "checkpoint/quantized_checkpoint.h"

#include <nlohmann/json.hpp>

#include "checkpoint/json_document.h"
#include "checkpoint/printable.h"

namespace quire {
namespace {

using nlohmann::json;

std::string text_of(const json& settings, const char* key) {
  const auto found = settings.find(key);
  if (found == settings.end() || found->is_null()) return {};
  return found->is_string() ? found->get<std::string>() : found->dump(-1, ' ', true, json::error_handler_t::replace);
}

Error refusal(const std::string& where, const json& settings, const std::string& default_method) {
  std::string method = default_method;
  std::string details;
  if (settings.is_object()) {
    if (const std::string given = text_of(settings, "quant_method"); !given.empty()) method = given;
    if (method == "unknown" && (settings.contains("load_in_4bit") || settings.contains("load_in_8bit"))) {
      method = "bitsandbytes";  // what older versions of it saved has no name
    }
    for (const char* key : {"bits", "w_bit", "group_size", "q_group_size", "checkpoint_format", "format"}) {
      const std::string value = text_of(settings, key);
      if (value.empty() || value.size() > 40) continue;
      details += (details.empty() ? " (" : ", ") + std::string(key) + " " + value;
    }
    if (!details.empty()) details += ")";
  }
  return unsupported(
      where + ": the weights are quantized with method " + quote_name(method) + details +
          ", which is not supported; supported are unquantized safetensors (float32, bfloat16, float16) and "
          "GGUF files (F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K)",
      "quantization_config");
}

}  // namespace

Status refuse_quantized_config(const json& config, const std::string& where) {
  for (const char* key : {"quantization_config", "compression_config", "quantization"}) {
    const auto found = config.find(key);
    if (found == config.end() || found->is_null() || (found->is_object() && found->empty())) continue;
    return refusal(where, *found, std::string(key) == "quantization" ? "mlx" : "unknown");
  }
  return {};
}

Status refuse_quantized_folder(const std::filesystem::path& folder) {
  for (const auto& [name, method] :
       {std::pair("quantize_config.json", "gptq"), std::pair("quant_config.json", "awq")}) {
    const std::filesystem::path path = folder / name;
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) continue;
    QUIRE_ASSIGN_OR_RETURN(const json settings, read_json_object(path));
    return refusal(path.string(), settings, method);
  }
  return {};
}

}  // namespace quire

#include "checkpoint/generation_config.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "checkpoint/json_fields.h"

namespace quire {

Result<GenerationConfig> parse_generation_config(const nlohmann::json& object, const std::string& where) {
  JsonFields fields(object, where);
  GenerationConfig config;
  config.temperature = fields.optional_number("temperature", 0.0, 1e6);
  config.top_p = fields.optional_number("top_p", 1e-9, 1.0);
  config.min_p = fields.optional_number("min_p", 0.0, 1.0);
  config.repetition_penalty = fields.optional_number("repetition_penalty", 1e-9, 1e6);
  config.top_k = fields.optional_integer("top_k", -1, std::numeric_limits<int32_t>::max());
  config.max_new_tokens = fields.optional_integer("max_new_tokens", 1, int64_t{1} << 40);
  config.eos_token_ids = fields.token_ids("eos_token_id");
  QUIRE_RETURN_IF_ERROR(fields.status());
  return config;
}

}  // namespace quire

#include "checkpoint/model_config.h"

#include <spdlog/spdlog.h>

#include "checkpoint/model_config_json.h"

namespace quire {

Result<ModelConfig> load_model_config(const std::filesystem::path& folder) {
  QUIRE_ASSIGN_OR_RETURN(JudgedConfig judged, judge_model_config_files(folder));
  for (const std::string& warning : judged.warnings) spdlog::warn("{}", warning);
  return std::move(judged.config);
}

}  // namespace quire

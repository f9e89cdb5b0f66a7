// config.json's text -> ModelConfig; load_model_config() is this plus the files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_config.h"

namespace quire {

/// A config and what should be said about it once, at load.
struct JudgedConfig {
  ModelConfig config;
  bool dtype_given = false;
  std::vector<std::string> warnings;
};

/// Judges the text of config.json and of generation_config.json (empty when there is none). `where` stands for the
/// folder in messages.
Result<JudgedConfig> judge_model_config(std::string_view config_text, std::string_view generation_text,
                                        const std::string& where);

/// The same from a folder's files.
Result<JudgedConfig> judge_model_config_files(const std::filesystem::path& folder);

/// Checks that hold for a config from any source: bounds, heads that divide, an even rotary size, known layer types.
Status validate_model_config(const ModelConfig& config, const std::string& where);

/// Adds `more` to `ids`, each id once.
void join_token_ids(std::vector<int32_t>& ids, const std::vector<int32_t>& more);

}  // namespace quire

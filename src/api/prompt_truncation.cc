#include "api/prompt_truncation.h"

#include <fmt/format.h>

#include <algorithm>

namespace quire {

Result<std::optional<size_t>> kept_prompt_tokens(const SamplingParams& params, int64_t max_model_len) {
  if (!params.truncate_prompt_tokens) return std::optional<size_t>();
  const int64_t kept = *params.truncate_prompt_tokens;
  if (kept > max_model_len) {
    return invalid_argument(
        fmt::format("truncate_prompt_tokens is {}, but the context length is {} tokens.", kept, max_model_len),
        "truncate_prompt_tokens");
  }
  return std::optional<size_t>(kept == -1 ? std::max<int64_t>(max_model_len - 1, 1) : kept);
}

void truncate_prompt(std::vector<int32_t>& ids, size_t kept, SamplingParams::TruncationSide side) {
  if (ids.size() <= kept) return;
  const auto surplus = static_cast<std::ptrdiff_t>(ids.size() - kept);
  if (side == SamplingParams::TruncationSide::kLeft) {
    ids.erase(ids.begin(), ids.begin() + surplus);
  } else {
    ids.erase(ids.end() - surplus, ids.end());
  }
}

Result<std::vector<int32_t>> encode_truncated(const EncodeText& encode, std::string_view text, bool add_special_tokens,
                                              const SamplingParams& params, int64_t max_model_len) {
  QUIRE_ASSIGN_OR_RETURN(const std::optional<size_t> kept, kept_prompt_tokens(params, max_model_len));
  QUIRE_ASSIGN_OR_RETURN(std::vector<int32_t> ids, encode(text, add_special_tokens));
  if (!kept || ids.size() <= *kept) return ids;
  QUIRE_ASSIGN_OR_RETURN(std::vector<int32_t> bare, encode(text, false));
  const auto inner = std::search(ids.begin(), ids.end(), bare.begin(), bare.end());
  const size_t added = ids.size() - std::min(ids.size(), bare.size());
  if (inner == ids.end() || added >= *kept) {
    truncate_prompt(ids, *kept, params.truncation_side);
    return ids;
  }
  truncate_prompt(bare, *kept - added, params.truncation_side);
  const auto behind = inner + static_cast<std::ptrdiff_t>(ids.size() - added);
  std::vector<int32_t> result(ids.begin(), inner);
  result.insert(result.end(), bare.begin(), bare.end());
  result.insert(result.end(), behind, ids.end());
  return result;
}

}  // namespace quire

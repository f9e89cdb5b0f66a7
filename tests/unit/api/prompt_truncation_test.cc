#include "api/prompt_truncation.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

using Side = SamplingParams::TruncationSide;

/// A token a character; BOS (1) before and EOS (2) behind.
Result<std::vector<int32_t>> encode(std::string_view text, bool special) {
  std::vector<int32_t> ids;
  if (special) ids.push_back(1);
  ids.insert(ids.end(), text.begin(), text.end());
  if (special) ids.push_back(2);
  return ids;
}

std::vector<int32_t> cut(std::string_view text, bool special, std::optional<int64_t> kept, Side side) {
  SamplingParams params;
  params.truncate_prompt_tokens = kept;
  params.truncation_side = side;
  return encode_truncated(encode, text, special, params, 7).value();
}

TEST(PromptTruncation, KeepsTheEndOrTheBeginning) {
  EXPECT_EQ(cut("abcd", false, std::nullopt, Side::kLeft), (std::vector<int32_t>{'a', 'b', 'c', 'd'}));
  EXPECT_EQ(cut("abcd", false, 4, Side::kLeft), (std::vector<int32_t>{'a', 'b', 'c', 'd'}));
  EXPECT_EQ(cut("abcd", false, 3, Side::kLeft), (std::vector<int32_t>{'b', 'c', 'd'}));
  EXPECT_EQ(cut("abcd", false, 3, Side::kRight), (std::vector<int32_t>{'a', 'b', 'c'}));
}

TEST(PromptTruncation, AddedSpecialTokensStay) {
  EXPECT_EQ(cut("abcd", true, 4, Side::kLeft), (std::vector<int32_t>{1, 'c', 'd', 2}));
  EXPECT_EQ(cut("abcd", true, 4, Side::kRight), (std::vector<int32_t>{1, 'a', 'b', 2}));
  EXPECT_EQ(cut("abcd", true, 2, Side::kLeft), (std::vector<int32_t>{'d', 2}));  // no room for text between them
}

TEST(PromptTruncation, MinusOneIsWhatTheContextHolds) {
  EXPECT_EQ(cut("abcdefghij", false, -1, Side::kLeft).size(), 6u);  // and one token of output
}

TEST(PromptTruncation, NotMoreThanTheContext) {
  SamplingParams params;
  params.truncate_prompt_tokens = 8;
  EXPECT_EQ(kept_prompt_tokens(params, 7).error().param, "truncate_prompt_tokens");
  EXPECT_FALSE(encode_truncated(encode, "a", false, params, 7).ok());
}

}  // namespace
}  // namespace quire

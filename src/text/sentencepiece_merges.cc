#include "text/sentencepiece_merges.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <unordered_map>

namespace quire {
namespace {

struct Merge {
  double score;
  uint32_t left_length, right_length;  ///< characters
  uint32_t left, right;                ///< ids
};

bool begins_character(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) != 0x80; }

}  // namespace

std::vector<std::pair<std::string, std::string>> merges_from_scores(const std::vector<std::string>& tokens,
                                                                    const std::vector<double>& scores) {
  std::unordered_map<std::string_view, uint32_t> ids;
  ids.reserve(tokens.size());
  for (uint32_t id = 0; id < tokens.size(); ++id) ids.insert_or_assign(tokens[id], id);

  std::vector<Merge> merges;
  for (uint32_t id = 0; id < tokens.size(); ++id) {
    const std::string_view token = tokens[id];
    const auto length = static_cast<uint32_t>(std::ranges::count_if(token, begins_character));
    const size_t first = merges.size();
    uint32_t left_length = 0;
    for (size_t cut = 1; cut < token.size(); ++cut) {
      if (!begins_character(token[cut])) continue;
      ++left_length;
      const auto left = ids.find(token.substr(0, cut));
      if (left == ids.end()) continue;
      const auto right = ids.find(token.substr(cut));
      if (right == ids.end()) continue;
      merges.push_back({scores[id], left_length, length - left_length, left->second, right->second});
    }
    std::sort(merges.begin() + static_cast<std::ptrdiff_t>(first), merges.end(),
              [](const Merge& a, const Merge& b) { return std::tie(a.left, a.right) < std::tie(b.left, b.right); });
  }
  std::ranges::stable_sort(merges, [](const Merge& a, const Merge& b) {
    return std::tie(a.score, a.left_length, a.right_length) > std::tie(b.score, b.left_length, b.right_length);
  });

  std::vector<std::pair<std::string, std::string>> result;
  result.reserve(merges.size());
  for (const Merge& merge : merges) result.emplace_back(tokens[merge.left], tokens[merge.right]);
  return result;
}

}  // namespace quire

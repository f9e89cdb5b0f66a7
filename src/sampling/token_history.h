// Which tokens a sequence has, for penalties: one entry a distinct token, however long the sequence and the vocabulary.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace quire {

class TokenHistory {
 public:
  struct Entry {
    int32_t token = 0;
    int32_t outputs = 0;  ///< how often the output has it; 0: only the prompt has it
  };

  void add_prompt(std::span<const int32_t> tokens) {
    for (const int32_t token : tokens) entry(token);
  }
  void add_output(int32_t token) { ++entry(token).outputs; }

  /// In the order in which the sequence first had them.
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  Entry& entry(int32_t token) {
    const auto [place, added] = places_.try_emplace(token, entries_.size());
    if (added) entries_.push_back({token, 0});
    return entries_[place->second];
  }

  std::vector<Entry> entries_;
  std::unordered_map<int32_t, size_t> places_;
};

}  // namespace quire

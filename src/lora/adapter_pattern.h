// Regular expressions of adapter configs: the part of Python's syntax that names modules, matched in bounded time.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

/// What all matches of one adapter may cost together, in visited states: patterns come from untrusted files.
struct MatchBudget {
  int64_t steps = 200'000'000;
};

/// A compiled pattern. It answers only whether a whole name matches, so greedy and lazy quantifiers are the same; it is
/// a graph of states of which each is visited at most once for each position of the name. Safe to use from many
/// threads.
class AdapterPattern {
 public:
  /// Known: literals, escapes, classes, groups (also named and `(?:`), alternatives, quantifiers, `^ $ \A \Z \b \B`,
  /// lookahead. Anything else of Python's (backreferences, lookbehind, inline flags) is refused with its name.
  static Result<AdapterPattern> compile(std::string_view text);

  /// As Python's re.fullmatch. An Error when the budget is used up.
  Result<bool> matches(std::string_view name, MatchBudget& budget) const;

  enum class Kind : uint8_t { kBytes, kSplit, kBegin, kEnd, kWordEdge, kNoWordEdge, kAhead, kNotAhead, kAccept };
  struct State {
    Kind kind = Kind::kAccept;
    int next = 0;
    int other = 0;  ///< kSplit: the second way; lookahead: where what it looks for begins
    int bytes = 0;  ///< kBytes: which of byte_sets_
  };

 private:
  bool run(int start, size_t position, std::string_view name, bool whole, MatchBudget& budget) const;

  std::vector<State> states_;
  std::vector<std::bitset<256>> byte_sets_;
  int start_ = 0;
};

}  // namespace quire

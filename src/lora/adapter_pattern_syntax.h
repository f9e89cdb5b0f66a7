// The syntax tree of an AdapterPattern.
#pragma once

#include <bitset>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

struct PatternNode {
  enum class Kind : uint8_t {
    kBytes,
    kSequence,
    kChoice,
    kRepeat,
    kBegin,
    kEnd,
    kWordEdge,
    kNoWordEdge,
    kAhead,
    kNotAhead
  };
  Kind kind = Kind::kSequence;
  std::bitset<256> bytes;             ///< kBytes
  std::vector<PatternNode> children;  ///< kSequence, kChoice; one of kRepeat and lookahead
  int min = 0;                        ///< kRepeat
  std::optional<int> max;             ///< kRepeat; none is without end
};

/// Parses Python's regular expression syntax; what it cannot read is an Error that says which construct.
Result<PatternNode> parse_pattern(std::string_view text);

}  // namespace quire

// Finds stop strings in text that arrives in pieces, wherever the pieces are cut.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

/// Text goes in as it is generated and comes out as far as it is sure not to belong to a stop string. The joined text
/// that comes out is the same for every way of cutting the input. Each byte costs one step for each stop string,
/// however long the output is.
///
/// The match is the one that ends first; of several that end there, the longest.
class StopChecker {
 public:
  /// `stops` must be valid UTF-8 and not empty strings. With `include_stop` the text that comes out ends with the stop
  /// string instead of before it.
  StopChecker(const std::vector<std::string>& stops, bool include_stop);

  /// The text that `piece` makes sure. After a match it is empty. Unless `may_match`, a stop string that ends in
  /// `piece` is text like any other.
  std::string push(std::string_view piece, bool may_match = true);
  /// The text that was held back, at the end of generation. Empty after a match.
  std::string finish();

  /// The stop string that was found.
  const std::optional<std::string>& matched() const { return matched_; }

 private:
  /// One stop string as a Knuth-Morris-Pratt automaton.
  struct Pattern {
    std::string text;
    std::vector<size_t> failure;  ///< failure[i]: the longest proper prefix of text[0, i] that is also its suffix
    size_t state = 0;             ///< bytes of `text` that the input ends with
  };

  /// The longest stop string that is complete after `byte`.
  const Pattern* advance(char byte, bool may_match);
  std::string release_unheld();

  std::vector<Pattern> patterns_;
  bool include_stop_;
  std::string held_;
  std::optional<std::string> matched_;
};

}  // namespace quire

// BPE merges from a SentencePiece vocabulary, which has scores in their place.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace quire {

/// All ways to make a token of two others, best first: by the made token's score, then the longer left part, then the
/// longer right part, then the parts' ids. This is the order of transformers' converter, hence the same ids. Lengths
/// are in characters. `scores` has one entry for each token.
std::vector<std::pair<std::string, std::string>> merges_from_scores(const std::vector<std::string>& tokens,
                                                                    const std::vector<double>& scores);

}  // namespace quire

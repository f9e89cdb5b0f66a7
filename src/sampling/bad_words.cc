#include "sampling/bad_words.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace quire {

BadWord::BadWord(std::vector<Edge> edges, int32_t length) : edges_(std::move(edges)), length_(length) {
  std::sort(edges_.begin(), edges_.end(), [](const Edge& a, const Edge& b) { return a.from < b.from; });
  begin_.assign(static_cast<size_t>(length) + 1, 0);
  for (const Edge& edge : edges_) {
    QUIRE_CHECK(edge.from >= 0 && edge.from < edge.to && edge.to <= length);
    ++begin_[static_cast<size_t>(edge.from) + 1];
  }
  for (size_t place = 1; place < begin_.size(); ++place) begin_[place] += begin_[place - 1];
}

std::span<const BadWord::Edge> BadWord::edges_from(int32_t place) const {
  const auto index = static_cast<size_t>(place);
  return std::span(edges_).subspan(begin_[index], begin_[index + 1] - begin_[index]);
}

BadWordProgress::BadWordProgress(BadWords words) : words_(std::move(words)), places_(words_->size(), {0}) {}

void BadWordProgress::advance(int32_t token) {
  thread_local std::vector<int32_t> reached;
  for (size_t i = 0; i < places_.size(); ++i) {
    const BadWord& word = (*words_)[i];
    reached.assign(1, 0);
    for (const int32_t place : places_[i]) {
      for (const BadWord::Edge& edge : word.edges_from(place)) {
        // A completed word (all other tokens were impossible) is behind us.
        if (edge.token == token && edge.to < word.length()) reached.push_back(edge.to);
      }
    }
    std::sort(reached.begin(), reached.end());
    reached.erase(std::unique(reached.begin(), reached.end()), reached.end());
    places_[i].assign(reached.begin(), reached.end());
  }
}

void BadWordProgress::add_banned(std::vector<int32_t>& tokens) const {
  for (size_t i = 0; i < places_.size(); ++i) {
    for (const int32_t place : places_[i]) {
      for (const BadWord::Edge& edge : (*words_)[i].edges_from(place)) {
        if (edge.to == (*words_)[i].length()) tokens.push_back(edge.token);
      }
    }
  }
}

}  // namespace quire

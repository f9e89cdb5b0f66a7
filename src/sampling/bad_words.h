// Words that an output must not have, as graphs of the tokens that spell them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace quire {

/// A word and every way in which the vocabulary's tokens spell it. Place 0 is before its first character, place
/// `length` behind its last one.
class BadWord {
 public:
  /// `token` spells the word's characters from place `from` to place `to`, which is larger.
  struct Edge {
    int32_t from = 0, to = 0;
    int32_t token = 0;
  };

  BadWord(std::vector<Edge> edges, int32_t length);

  /// The tokens that continue the word at a place.
  std::span<const Edge> edges_from(int32_t place) const;
  int32_t length() const { return length_; }

 private:
  std::vector<Edge> edges_;    ///< by place
  std::vector<size_t> begin_;  ///< begin_[place] .. begin_[place + 1]: the edges from a place
  int32_t length_;
};

/// Shared by all choices of a request.
using BadWords = std::shared_ptr<const std::vector<BadWord>>;

/// How far one output has got with the words.
class BadWordProgress {
 public:
  explicit BadWordProgress(BadWords words);

  /// The output has one token more.
  void advance(int32_t token);
  /// Appends the tokens that would complete a word now.
  void add_banned(std::vector<int32_t>& tokens) const;

 private:
  BadWords words_;
  /// For each word: the places that the output's last tokens have reached, 0 always.
  std::vector<std::vector<int32_t>> places_;
};

}  // namespace quire

#include "api/stop_checker.h"

#include <gtest/gtest.h>

#include <random>

namespace quire {
namespace {

struct Joined {
  std::string text;
  std::optional<std::string> stop;
};

Joined run(const std::vector<std::string>& pieces, const std::vector<std::string>& stops, bool include = false) {
  StopChecker checker(stops, include);
  Joined joined;
  for (const std::string& piece : pieces) joined.text += checker.push(piece);
  joined.text += checker.finish();
  joined.stop = checker.matched();
  return joined;
}

TEST(StopChecker, SAMP_13_StopSplitOverPieces) {
  const Joined joined = run({"Hello wo", "rld, ", "and"}, {"ld,"});
  EXPECT_EQ(joined.text, "Hello wor");
  EXPECT_EQ(joined.stop, "ld,");
}

TEST(StopChecker, SAMP_13_HeadOfAStopIsHeldBack) {
  StopChecker checker({"END"}, false);
  EXPECT_EQ(checker.push("the E"), "the ");
  EXPECT_EQ(checker.push("N"), "");
  EXPECT_EQ(checker.push("EN"), "EN");
  EXPECT_EQ(checker.push("D more"), "");
  EXPECT_EQ(checker.matched(), "END");
  EXPECT_EQ(checker.push("more"), "");
  EXPECT_EQ(checker.finish(), "");
}

TEST(StopChecker, SAMP_14_HeldTextIsFlushed) {
  StopChecker checker({"abcX"}, false);
  EXPECT_EQ(checker.push("abc"), "");
  EXPECT_EQ(checker.finish(), "abc");
  EXPECT_FALSE(checker.matched());
}

TEST(StopChecker, IncludeStop) {
  const Joined joined = run({"ab", "cd", "ef"}, {"cde"}, true);
  EXPECT_EQ(joined.text, "abcde");
  EXPECT_EQ(joined.stop, "cde");
  StopChecker checker({"xyz"}, true);
  EXPECT_EQ(checker.push("wx"), "wx") << "nothing has to be held back";
}

TEST(StopChecker, FirstEndWinsThenTheLongest) {
  EXPECT_EQ(run({"say abcd"}, {"bcd", "ab"}).stop, "ab");
  EXPECT_EQ(run({"say abcd"}, {"d", "bcd", "cd"}).stop, "bcd");
  EXPECT_EQ(run({"say abcd"}, {"bcd", "d"}).text, "say a");
}

TEST(StopChecker, ManyBytesToACharacter) {
  EXPECT_EQ(run({"caf", "é", " è"}, {"è"}).text, "café ");
  EXPECT_EQ(run({"日本", "語", "。次"}, {"語。"}).text, "日本");
}

TEST(StopChecker, NoStops) {
  StopChecker checker({}, false);
  EXPECT_EQ(checker.push("anything"), "anything");
  EXPECT_EQ(checker.finish(), "");
}

/// The answer from the whole text: the earliest end, then the longest.
Joined naive(const std::string& text, const std::vector<std::string>& stops, bool include) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::optional<std::string> best;
    for (const std::string& stop : stops) {
      const bool here = end >= stop.size() && text.compare(end - stop.size(), stop.size(), stop) == 0;
      if (here && (!best || stop.size() > best->size())) best = stop;
    }
    if (best) return {text.substr(0, include ? end : end - best->size()), best};
  }
  return {text, std::nullopt};
}

TEST(StopChecker, AgreesWithSearchOverTheWholeText) {
  std::mt19937 generator(11);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(generator); };
  const auto word = [&](int low, int high) {
    std::string text(static_cast<size_t>(pick(low, high)), ' ');
    for (char& byte : text) byte = static_cast<char>('a' + pick(0, 1));
    return text;
  };
  int found = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::string> stops;
    for (int i = pick(1, 3); i > 0; --i) stops.push_back(word(1, 7));
    const std::string text = word(0, 40);
    std::vector<std::string> pieces;
    for (size_t begin = 0; begin < text.size();) {
      const auto length = static_cast<size_t>(pick(0, 5));
      pieces.push_back(text.substr(begin, length));
      begin += length;
    }
    const bool include = pick(0, 1) == 1;
    const Joined expected = naive(text, stops, include), actual = run(pieces, stops, include);
    ASSERT_EQ(actual.text, expected.text);
    ASSERT_EQ(actual.stop, expected.stop);
    found += expected.stop ? 1 : 0;
    // What has come out so far never has to be taken back.
    StopChecker checker(stops, include);
    std::string so_far;
    for (const std::string& piece : pieces) {
      so_far += checker.push(piece);
      ASSERT_TRUE(expected.text.starts_with(so_far));
    }
  }
  EXPECT_GT(found, 5000);
}

}  // namespace
}  // namespace quire

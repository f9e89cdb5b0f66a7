#include "cli/sse_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace quire::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> events_of(const std::vector<std::string>& pieces) {
  std::vector<std::string> events;
  SseParser parser([&](std::string_view data) { events.emplace_back(data); });
  for (const std::string& piece : pieces) EXPECT_TRUE(parser.feed(piece).ok());
  return events;
}

TEST(SseParser, EventsWithEveryKindOfLineEnd) {
  EXPECT_THAT(events_of({"data: a\n\ndata: b\r\n\r\ndata: c\r\rdata:d\n\n"}), ElementsAre("a", "b", "c", "d"));
}

TEST(SseParser, AnySplitGivesTheSameEvents) {
  const std::string stream =
      "\xEF\xBB\xBF: hello\n\ndata: {\"a\": 1}\r\n\r\nevent: x\rdata: one\rdata: two\r\ndata\n\nid: 3\nretry: "
      "5\n\ndata:  [DONE]\n\n";
  const std::vector<std::string> whole = events_of({stream});
  EXPECT_THAT(whole, ElementsAre("{\"a\": 1}", "one\ntwo\n", " [DONE]"));
  std::vector<std::string> bytes;
  for (const char c : stream) bytes.emplace_back(1, c);
  EXPECT_EQ(events_of(bytes), whole);
  for (size_t cut = 0; cut <= stream.size(); ++cut) {
    EXPECT_EQ(events_of({stream.substr(0, cut), stream.substr(cut)}), whole) << cut;
  }
}

TEST(SseParser, AnUnfinishedEventIsNotGivenOut) { EXPECT_THAT(events_of({"data: half\n", "data: more"}), IsEmpty()); }

TEST(SseParser, FieldsThatOnlyBeginWithDataAreNoData) {
  EXPECT_THAT(events_of({"database: x\n\ndata : y\n\n"}), IsEmpty());
}

TEST(SseParser, GarbageIsNoEventAndNoCrash) {
  std::mt19937 random(7);
  SseParser parser([](std::string_view) {});
  for (int i = 0; i < 2000; ++i) {
    std::string bytes(random() % 64, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    ASSERT_TRUE(parser.feed(bytes).ok());
  }
}

TEST(SseParser, AnEventBeyondTheLimitIsAnError) {
  SseParser parser([](std::string_view) {}, 100);
  EXPECT_TRUE(parser.feed("data: " + std::string(90, 'x')).ok());
  EXPECT_EQ(parser.feed(std::string(90, 'x')).error().message, "the server sent an event of more than 100 bytes");
}

TEST(SseParser, ManyShortDataLinesCountTogether) {
  SseParser parser([](std::string_view) {}, 100);
  Status status;
  for (int i = 0; i < 50 && status.ok(); ++i) status = parser.feed("data: xxxx\n");
  EXPECT_FALSE(status.ok());
}

}  // namespace
}  // namespace quire::cli

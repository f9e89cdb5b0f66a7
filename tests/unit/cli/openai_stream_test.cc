#include "cli/openai_stream.h"

#include <gtest/gtest.h>

#include "cli/http_url.h"

namespace quire::cli {
namespace {

TEST(StreamDelta, CompletionsAndChats) {
  const auto text = parse_stream_delta(R"({"choices":[{"text":"ab","finish_reason":null}]})");
  EXPECT_EQ(text->text, "ab");
  EXPECT_TRUE(text->has_tokens);
  const auto held = parse_stream_delta(R"({"choices":[{"text":"","finish_reason":null}]})");
  EXPECT_TRUE(held->has_tokens);
  const auto opening = parse_stream_delta(R"({"choices":[{"delta":{"role":"assistant","content":""}}]})");
  EXPECT_FALSE(opening->has_tokens);
  const auto content = parse_stream_delta(R"({"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]})");
  EXPECT_EQ(content->text, "x");
  EXPECT_EQ(content->finish_reason, "stop");
  EXPECT_TRUE(content->has_tokens);
  const auto usage = parse_stream_delta(R"({"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}})");
  EXPECT_FALSE(usage->has_tokens);
  EXPECT_EQ(usage->prompt_tokens, 3);
  EXPECT_EQ(usage->completion_tokens, 4);
}

TEST(StreamDelta, ErrorsAndGarbage) {
  EXPECT_EQ(parse_stream_delta(R"({"error":{"message":"no"}})")->error, "no");
  EXPECT_EQ(parse_stream_delta(R"({"error":"bad"})")->error, "bad");
  for (const char* data : {"", "x", "[1]", "{\"a\":", "null", "\xff\xfe"}) {
    EXPECT_FALSE(parse_stream_delta(data).ok()) << data;
  }
  for (const char* data : {R"({"choices":3})", R"({"choices":[3]})", R"({"choices":[{"text":3}],"usage":[]})",
                           R"({"choices":[{"delta":null}]})"}) {
    EXPECT_TRUE(parse_stream_delta(data).ok()) << data;
  }
}

TEST(DescribeFailure, TakesTheServersSentence) {
  EXPECT_EQ(
      describe_failure({.status = 400, .content_type = "", .body = R"({"error":{"message":"too long"}})", .error = ""}),
      "the server answered 400: too long");
  EXPECT_EQ(describe_failure({.status = 502, .content_type = "", .body = "<html>", .error = ""}),
            "the server answered 502: <html>");
  EXPECT_EQ(describe_failure({.status = 0, .content_type = "", .body = "", .error = "refused"}), "refused");
}

TEST(HttpUrl, Parts) {
  const auto url = parse_http_url("http://[::1]:81/v1/");
  EXPECT_EQ(url->host, "::1");
  EXPECT_EQ(url->port, "81");
  EXPECT_EQ(url->path, "/v1");
  EXPECT_EQ(url->authority(), "[::1]:81");
  EXPECT_EQ(parse_http_url("localhost")->port, "80");
  for (const char* text : {"https://a", "ftp://a", "http://", "http://a:0", "http://a:x", "http://u@a", "http://a b",
                           "http://[::1", "http://a\r\nX: y"}) {
    EXPECT_FALSE(parse_http_url(text).ok()) << text;
  }
}

}  // namespace
}  // namespace quire::cli

// What browsers are told about pages of other origins.
#include "server/cors.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

constexpr const char* kOrigin = "https://page.example";

HttpRequest request(const std::string& method, HttpHeaders headers) {
  HttpRequest request;
  request.method = method;
  request.path = "/v1/models";
  request.headers = std::move(headers);
  return request;
}

HttpRequest preflight(const std::string& method, const std::string& headers, const std::string& origin = kOrigin) {
  return request(
      "OPTIONS",
      {{"Origin", origin}, {"Access-Control-Request-Method", method}, {"Access-Control-Request-Headers", headers}});
}

std::string value(const HttpHeaders& headers, const char* name) {
  return std::string(find_header(headers, name).value_or("absent"));
}

TEST(Cors, ByDefaultEveryPageMayRead) {
  const Cors cors(CorsOptions{});
  EXPECT_EQ(value(cors.headers(request("GET", {{"Origin", kOrigin}})), "Access-Control-Allow-Origin"), "*");
  EXPECT_TRUE(cors.headers(request("GET", {})).empty());
  const auto answer = cors.preflight(preflight("POST", "authorization, x-other"));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(value(answer->headers, "Access-Control-Allow-Headers"), "authorization, x-other");
  EXPECT_NE(value(answer->headers, "Access-Control-Allow-Methods").find("POST"), std::string::npos);
}

TEST(Cors, OnlyWholePreflightsAreAnswered) {
  const Cors cors(CorsOptions{});
  EXPECT_FALSE(cors.preflight(request("OPTIONS", {{"Origin", kOrigin}})));
  EXPECT_FALSE(cors.preflight(request("OPTIONS", {{"Access-Control-Request-Method", "GET"}})));
  EXPECT_FALSE(cors.preflight(request("GET", {{"Origin", kOrigin}, {"Access-Control-Request-Method", "GET"}})));
}

TEST(Cors, ListsAreHeld) {
  const Cors cors({{kOrigin}, {"GET"}, {"X-Own"}, false});
  const HttpHeaders known = cors.headers(request("GET", {{"Origin", kOrigin}}));
  EXPECT_EQ(value(known, "Access-Control-Allow-Origin"), kOrigin);
  EXPECT_EQ(value(known, "Vary"), "Origin");
  const HttpHeaders other = cors.headers(request("GET", {{"Origin", "https://page.example.evil"}}));
  EXPECT_EQ(value(other, "Access-Control-Allow-Origin"), "absent");
  EXPECT_EQ(value(other, "Vary"), "Origin");
  EXPECT_EQ(cors.preflight(preflight("GET", "x-own, Content-Type"))->status, 200);
  EXPECT_EQ(cors.preflight(preflight("POST", ""))->status, 400);
  EXPECT_EQ(cors.preflight(preflight("GET", "x-own,x-other"))->status, 400);
  EXPECT_EQ(cors.preflight(preflight("GET", "", "null"))->status, 400);
}

TEST(Cors, CredentialsNameTheOrigin) {
  CorsOptions options;
  options.allow_credentials = true;
  const HttpHeaders headers = Cors(options).headers(request("GET", {{"Origin", kOrigin}}));
  EXPECT_EQ(value(headers, "Access-Control-Allow-Origin"), kOrigin);
  EXPECT_EQ(value(headers, "Access-Control-Allow-Credentials"), "true");
}

TEST(Cors, WithoutOriginsThereIsNone) {
  const Cors cors({{}, {"*"}, {"*"}, true});
  EXPECT_TRUE(cors.headers(request("GET", {{"Origin", kOrigin}})).empty());
  EXPECT_FALSE(cors.preflight(preflight("GET", "")));
}

}  // namespace
}  // namespace quire

// The server over loopback with a scripted engine: routes, keys, limits, streams, disconnects, drain.
#include "server/server.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "server/auth.h"
#include "server/metrics.h"
#include "server/serving_test.h"

namespace quire {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::milliseconds;

class ServerTest : public ServingTest {
 protected:
  void serve(milliseconds step = milliseconds(0)) { start(std::make_unique<FakeBackend>(step)); }
  bool eventually(const std::function<bool()>& condition) const {
    for (int i = 0; i < 500; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(milliseconds(10));
    }
    return false;
  }
};

TEST_F(ServerTest, PlainCompletion) {
  serve();
  const Json answer =
      post("/v1/completions", R"({"prompt": "abc", "max_tokens": 5, "request_id": "r1", "logprobs": 1})");
  EXPECT_EQ(answer["id"], "cmpl-r1");
  EXPECT_EQ(answer["object"], "text_completion");
  EXPECT_EQ(answer["model"], "fake");
  EXPECT_EQ(answer["choices"][0]["text"], "abcab");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(answer["choices"][0]["logprobs"]["text_offset"], Json::array({0, 1, 2, 3, 4}));
  EXPECT_EQ(answer["usage"]["total_tokens"], 8);
}

TEST_F(ServerTest, STRM_12_ManyPromptsKeepTheirOrder) {
  serve(milliseconds(1));
  const Json answer = post("/v1/completions", R"({"prompt": ["a", "b", "c"], "max_tokens": 3})");
  ASSERT_EQ(answer["choices"].size(), 3u);
  EXPECT_EQ(answer["choices"][1]["index"], 1);
  EXPECT_EQ(answer["choices"][1]["text"], "bbb");
  EXPECT_EQ(answer["usage"]["completion_tokens"], 9);
}

TEST_F(ServerTest, ChatStream) {
  serve();
  const std::string body = body_of(exchange(port, "POST", "/v1/chat/completions",
                                            R"({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4,
                                               "stream": true, "stream_options": {"include_usage": true}})"));
  EXPECT_NE(body.find(R"("delta":{"role":"assistant","content":""})"), std::string::npos) << body;
  EXPECT_NE(body.find(R"("delta":{"content":"h"})"), std::string::npos);
  EXPECT_NE(body.find(R"("finish_reason":"length")"), std::string::npos);
  EXPECT_NE(body.find(R"("choices":[],"usage":{"prompt_tokens":2,"total_tokens":6,"completion_tokens":4)"),
            std::string::npos);
  EXPECT_NE(body.find("data: [DONE]\n\n"), std::string::npos);
  EXPECT_LT(body.find("\"choices\":[]"), body.find("[DONE]"));
}

TEST_F(ServerTest, SRVR_01_UnknownModel) {
  serve();
  const Json error = post("/v1/completions", R"({"prompt": "a", "model": "does-not-exist"})", 404)["error"];
  EXPECT_EQ(error["code"], "model_not_found");
  EXPECT_NE(error["message"].get<std::string>().find("fake"), std::string::npos);
  post("/v1/completions", R"({"prompt": "a", "model": "fake"})");
}

TEST_F(ServerTest, SAMP_05_ErrorBodiesAreJson) {
  serve();
  for (const char* body : {R"({"prompt": "a", "temperature": NaN})", "{\"prompt\": \"\xff\"}", "", "[1", "\"x\""}) {
    const std::string response = exchange(port, "POST", "/v1/completions", body);
    EXPECT_EQ(status_of(response), 400) << response;
    EXPECT_TRUE(Json::accept(body_of(response))) << response;
  }
  post("/v1/completions", R"({"prompt": "a"})");
}

TEST_F(ServerTest, CHNK_14_AndSTRM_10_PromptsThatDoNotFit) {
  serve();
  const Json error = post("/v1/completions", R"({"prompt": ")" + std::string(5000, 'x') + "\"}", 400)["error"];
  EXPECT_NE(error["message"].get<std::string>().find("4096"), std::string::npos);
  EXPECT_EQ(post("/v1/completions", R"({"prompt": ""})", 400)["error"]["param"], "prompt");
  // One bad prompt of a list refuses all of them.
  post("/v1/completions", R"({"prompt": ["a", ")" + std::string(5000, 'x') + "\"]}", 400);
  EXPECT_TRUE(eventually([this] { return backend->stats().running == 0; }));
}

TEST_F(ServerTest, CHAT_01_NoTemplate) {
  serve();
  backend->has_template = false;
  const Json error = post("/v1/chat/completions", R"({"messages": [{"role": "user", "content": "x"}]})", 400)["error"];
  EXPECT_NE(error["message"].get<std::string>().find("--chat-template"), std::string::npos);
  post("/v1/completions", R"({"prompt": "a"})");
}

TEST_F(ServerTest, SRVR_06_KeysGuardAllButHealthAndMetrics) {
  options.api_keys = {"secret", "other"};
  serve();
  for (const char* path :
       {"/v1/models", "/v1/completions", "//v1/models", "/%76%31/models", "/health/../v1/models", "/version",
        "/tokenize", "/v1/models?x=/health", "/health/", "/metrics/x", "http://h/v1/models", "/nothing"}) {
    for (const char* method : {"GET", "POST", "OPTIONS", "HEAD"}) {
      EXPECT_EQ(status_of(exchange(port, method, path)), 401) << method << " " << path;
    }
    EXPECT_EQ(status_of(exchange(port, "GET", path, "", "Authorization: Bearer secretx\r\n")), 401) << path;
  }
  EXPECT_EQ(status_of(exchange(port, "GET", "/health")), 200);
  EXPECT_EQ(status_of(exchange(port, "GET", "/metrics")), 200);
  EXPECT_EQ(status_of(exchange(port, "GET", "/v1/models", "", "Authorization: Bearer secret\r\n")), 200);
  EXPECT_EQ(status_of(exchange(port, "GET", "/v1/models", "", "authorization: bearer other\r\n")), 200);
  EXPECT_EQ(status_of(exchange(port, "GET", "//v1/models", "", "Authorization: Bearer secret\r\n")), 404);
}

TEST_F(ServerTest, PreflightsPassWithoutAKeyAndOpenNothing) {
  options.api_keys = {"secret"};
  serve();
  const std::string page = "Origin: https://page.example\r\n";
  const std::string asked = page + "Access-Control-Request-Method: POST\r\n";
  const std::string preflight = exchange(port, "OPTIONS", "/v1/completions", "", asked);
  EXPECT_EQ(status_of(preflight), 200);
  EXPECT_NE(preflight.find("Access-Control-Allow-Origin: *\r\n"), std::string::npos) << preflight;
  for (const char* method : {"GET", "POST", "HEAD"}) {
    EXPECT_EQ(status_of(exchange(port, method, "/v1/models", "", asked)), 401) << method;
  }
  // Pages can read refusals too, and those of requests whose body is not taken.
  EXPECT_NE(exchange(port, "GET", "/v1/models", "", page).find("Access-Control-Allow-Origin: *"), std::string::npos);
}

TEST_F(ServerTest, RequestIdsOnEveryAnswerWhereAskedFor) {
  options.enable_request_id_headers = true;
  serve();
  const auto ids = [this](const char* path, const std::string& body, const std::string& headers) {
    const std::string answer = exchange(port, body.empty() ? "GET" : "POST", path, body, headers);
    std::vector<std::string> found;
    for (size_t at = 0; (at = answer.find("X-Request-Id: ", at)) != std::string::npos;) {
      at += 14;
      found.push_back(answer.substr(at, answer.find("\r\n", at) - at));
    }
    return found;
  };
  const std::string own = "X-Request-Id: mine\r\n";
  EXPECT_EQ(ids("/health", "", own), std::vector<std::string>{"mine"});
  EXPECT_EQ(ids("/nothing", "", own), std::vector<std::string>{"mine"});
  EXPECT_EQ(ids("/v1/completions", R"({"prompt": "a"})", own), std::vector<std::string>{"mine"});
  EXPECT_EQ(ids("/v1/completions", R"({"prompt": "a", "request_id": "body"})", own), std::vector<std::string>{"body"});
  const auto random = ids("/health", "", "");
  ASSERT_EQ(random.size(), 1u);
  EXPECT_EQ(random[0].size(), 32u);
  EXPECT_EQ(ids("/health", "", "X-Request-Id: a b\r\n")[0].size(), 32u) << "an id with a space is none";
}

TEST_F(ServerTest, OtherRoutes) {
  options.served_model_names = {"org/name", "alias"};
  serve();
  const Json models = Json::parse(body_of(exchange(port, "GET", "/v1/models")));
  EXPECT_EQ(models["data"].size(), 2u);
  EXPECT_EQ(models["data"][0]["id"], "org/name");
  EXPECT_EQ(models["data"][0]["max_model_len"], 4096);
  EXPECT_EQ(status_of(exchange(port, "GET", "/v1/models/org%2Fname")), 200);
  EXPECT_EQ(status_of(exchange(port, "GET", "/v1/models/none")), 404);
  EXPECT_EQ(post("/tokenize", R"({"prompt": "ab"})")["tokens"], Json::array({97, 98}));
  EXPECT_EQ(post("/detokenize", R"({"tokens": [97, 98]})")["prompt"], "ab");
  EXPECT_EQ(status_of(exchange(port, "GET", "/nothing")), 404);
  const std::string wrong = exchange(port, "GET", "/v1/completions");
  EXPECT_EQ(status_of(wrong), 405);
  EXPECT_NE(wrong.find("Allow: POST"), std::string::npos);
  EXPECT_EQ(status_of(exchange(port, "OPTIONS", "/v1/completions")), 204);
  const std::string head = exchange(port, "HEAD", "/version");
  EXPECT_EQ(status_of(head), 200);
  EXPECT_EQ(body_of(head), "");
  backend->is_healthy = false;
  EXPECT_EQ(status_of(exchange(port, "GET", "/health")), 503);
}

TEST_F(ServerTest, KeepAliveAndPipelining) {
  serve();
  RawClient client(port);
  client.send_bytes(http_request("GET", "/version") + http_request("GET", "/v1/models") +
                    http_request("GET", "/nothing"));
  EXPECT_NE(client.read_until("\"version\"").find("200 OK"), std::string::npos);
  EXPECT_NE(client.read_until("\"list\"").find("200 OK"), std::string::npos);
  EXPECT_NE(client.read_until("NotFoundError").find("404"), std::string::npos);
}

TEST_F(ServerTest, LimitsOnWhatAClientSends) {
  options.limits.max_body_bytes = 1000;
  options.limits.max_header_bytes = 4000;
  options.limits.max_target_bytes = 500;
  options.limits.max_headers = 20;
  serve();
  EXPECT_EQ(status_of(exchange(port, "POST", "/v1/completions", std::string(2000, ' '))), 413);
  EXPECT_EQ(status_of(exchange(port, "GET", "/" + std::string(600, 'a'))), 414);
  EXPECT_EQ(status_of(exchange(port, "GET", "/version", "", "X: " + std::string(5000, 'a') + "\r\n")), 431);
  std::string many;
  for (int i = 0; i < 30; ++i) many += "X-" + std::to_string(i) + ": 1\r\n";
  EXPECT_EQ(status_of(exchange(port, "GET", "/version", "", many)), 431);
  RawClient nonsense(port);
  nonsense.send_bytes("\x16\x03\x01 hello\r\n\r\n");
  EXPECT_EQ(status_of(nonsense.read_to_end()), 400);
  EXPECT_EQ(status_of(exchange(port, "GET", "/version")), 200);
}

TEST_F(ServerTest, SlowClientsLoseTheirConnection) {
  options.limits.header_timeout = milliseconds(100);
  options.limits.body_timeout = milliseconds(100);
  serve();
  RawClient header(port), body(port), silent(port);
  header.send_bytes("GET /version HTTP/1.1\r\nHos");
  body.send_bytes("POST /v1/completions HTTP/1.1\r\nContent-Length: 100\r\n\r\n{");
  EXPECT_EQ(header.read_to_end(), "");
  EXPECT_EQ(body.read_to_end(), "");
  EXPECT_EQ(silent.read_to_end(), "");
}

TEST_F(ServerTest, ExpectContinue) {
  serve();
  RawClient client(port);
  client.send_bytes(
      "POST /v1/completions HTTP/1.1\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: 15\r\n\r\n");
  EXPECT_NE(client.read_until("\r\n\r\n").find("100 Continue"), std::string::npos);
  client.send_bytes(R"({"prompt": "a"})");
  EXPECT_EQ(status_of(client.read_to_end()), 200);
}

TEST_F(ServerTest, STRM_07_DisconnectEndsAStream_METR_01_AbortsAreCounted) {
  serve(milliseconds(5));
  for (int i = 0; i < 5; ++i) {
    RawClient client(port);
    client.send_bytes(
        http_request("POST", "/v1/completions", R"({"prompt": "x", "max_tokens": 100000, "stream": true})"));
    EXPECT_NE(client.read_until("\"text\":\"x\"").find("text/event-stream"), std::string::npos);
  }
  EXPECT_TRUE(eventually([this] { return backend->stats().running == 0; }));
  EXPECT_NE(exchange(port, "GET", "/metrics").find("finished_reason=\"abort\"} 5"), std::string::npos);
}

TEST_F(ServerTest, STRM_08_DisconnectEndsAPlainRequest) {
  serve(milliseconds(5));
  {
    RawClient client(port);
    client.send_bytes(http_request("POST", "/v1/completions", R"({"prompt": "x", "max_tokens": 100000})"));
    EXPECT_TRUE(eventually([this] { return backend->stats().running == 1; }));
  }
  EXPECT_TRUE(eventually([this] { return backend->stats().running == 0; }));
}

TEST_F(ServerTest, AClientThatDoesNotReadIsCutOff) {
  options.limits.max_buffered_bytes = 64 * 1024;
  serve();
  RawClient client(port);
  client.send_bytes(
      http_request("POST", "/v1/completions", R"({"prompt": "x", "max_tokens": 200000, "stream": true})"));
  EXPECT_TRUE(eventually([this] { return backend->stats().finished_abort == 1; }));
}

TEST_F(ServerTest, SRVR_11_HealthAnswersUnderManyStreams) {
  serve(milliseconds(20));
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 64; ++i) {
    clients.push_back(std::make_unique<RawClient>(port));
    clients.back()->send_bytes(
        http_request("POST", "/v1/completions", R"({"prompt": "x", "max_tokens": 100, "stream": true})"));
  }
  for (const auto& client : clients) EXPECT_NE(client->read_until("\"text\":\"x\""), "");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(status_of(exchange(port, "GET", "/health")), 200);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
  for (const auto& client : clients)
    EXPECT_NE(client->read_until("[DONE]").find("\"finish_reason\":\"length\""), std::string::npos);
}

TEST_F(ServerTest, SRVR_08_DrainLetsStreamsFinishAndRefusesNewWork) {
  serve(milliseconds(10));
  RawClient client(port);
  client.send_bytes(http_request("POST", "/v1/completions", R"({"prompt": "x", "max_tokens": 30, "stream": true})"));
  client.read_until("\"text\":\"x\"");
  server->begin_drain();
  EXPECT_FALSE(server->idle());
  const std::string refused = exchange(port, "POST", "/v1/completions", R"({"prompt": "x"})");
  EXPECT_EQ(status_of(refused), 503);
  EXPECT_NE(refused.find("Retry-After"), std::string::npos);
  EXPECT_EQ(status_of(exchange(port, "GET", "/health")), 503);
  EXPECT_NE(client.read_until("[DONE]").find("[DONE]"), std::string::npos);
  EXPECT_TRUE(eventually([this] { return server->idle(); }));
}

TEST_F(ServerTest, StopEndsRunningStreams) {
  serve(milliseconds(5));
  RawClient client(port);
  client.send_bytes(
      http_request("POST", "/v1/completions", R"({"prompt": "x", "max_tokens": 100000, "stream": true})"));
  client.read_until("\"text\":\"x\"");
  server->stop();
  EXPECT_EQ(client.read_to_end().find("[DONE]"), std::string::npos);
  EXPECT_TRUE(eventually([this] { return backend->stats().running == 0; }));
}

TEST_F(ServerTest, TakenPortIsAnError) {
  serve();
  const auto second = BoundAddress::bind(options.host, port);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message.find(std::to_string(port)), std::string::npos);
}

TEST(BoundAddress, TakenBetweenBindAndListenIsAnError) {
  auto first = BoundAddress::bind("127.0.0.1", 0);
  ASSERT_TRUE(first.ok()) << first.error().message;
  auto second = BoundAddress::bind("127.0.0.1", first.value().port());
  ASSERT_TRUE(second.ok()) << second.error().message;  // nobody listens yet
  EXPECT_TRUE(second.value().listen().ok());
  const Status late = first.value().listen();
  ASSERT_FALSE(late.ok());
  EXPECT_NE(late.error().message.find(std::to_string(first.value().port())), std::string::npos);
}

TEST(BoundAddress, NoAddress) {
  for (const char* host : {"no such host", "", "300.1.1.1"}) {
    const auto address = BoundAddress::bind(host, 0);
    ASSERT_FALSE(address.ok()) << host;
    EXPECT_EQ(address.error().param, "host");
  }
}

TEST(ApiKeys, ComparesWhole) {
  EXPECT_TRUE(equal_in_constant_time("abc", "abc"));
  EXPECT_FALSE(equal_in_constant_time("abc", "abd"));
  EXPECT_FALSE(equal_in_constant_time("abcabc", "abc"));
  EXPECT_FALSE(equal_in_constant_time("", "abc"));
  EXPECT_FALSE(equal_in_constant_time("abc", ""));
}

TEST(Metrics, CountsLatenciesAndParses) {
  EngineLimits limits;
  limits.max_model_len = 100;
  Metrics metrics("m\"x", limits);
  Metrics::Request request(metrics, 10);
  TextOutput output;
  output.token_ids = {1};
  request.observe(output);
  output.finish_reason = FinishReason::kLength;
  request.observe(output);
  metrics.observe_step(32);
  EngineStats stats;
  stats.finished_length = 3;
  const std::string text = metrics.serialize(stats);
  EXPECT_NE(text.find("vllm:time_to_first_token_seconds_count{engine=\"0\",model_name=\"m\\\"x\"} 1"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("vllm:inter_token_latency_seconds_count{engine=\"0\",model_name=\"m\\\"x\"} 1"),
            std::string::npos);
  EXPECT_NE(text.find("finished_reason=\"length\"} 3"), std::string::npos);
  EXPECT_NE(text.find("vllm:iteration_tokens_total_bucket"), std::string::npos);
}

}  // namespace
}  // namespace quire

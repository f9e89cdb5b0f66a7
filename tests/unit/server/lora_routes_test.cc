// Adapters over HTTP: load, unload, models, choice by name, first use from a folder, metrics.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>

#include "api/fake_adapters.h"
#include "server/serving_test.h"

namespace quire {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

class LoraRoutesTest : public ServingTest {
 protected:
  void serve(AdapterCatalog::Options catalog_options = {}, bool lora = true) {
    auto engine = std::make_unique<FakeBackend>();
    if (lora) {
      engine->catalog =
          std::make_unique<AdapterCatalog>(catalog_options, std::make_unique<test::FakeAdapterMemory>(shelf));
    }
    start(std::move(engine));
  }
  Json models() const { return Json::parse(body_of(exchange(port, "GET", "/v1/models")))["data"]; }
  void load(const std::string& name, const std::string& path) const {
    EXPECT_EQ(post_raw("/v1/load_lora_adapter", Json{{"lora_name", name}, {"lora_path", path}}.dump(), 200),
              "Success: LoRA adapter '" + name + "' added successfully.");
  }

  std::shared_ptr<test::AdapterShelf> shelf = std::make_shared<test::AdapterShelf>();
};

TEST_F(LoraRoutesTest, LoadUseListUnload) {
  serve();
  load("alpha", "v1");
  const Json rows = models();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["id"], "fake");
  EXPECT_EQ(rows[0]["parent"], nullptr);
  EXPECT_EQ(rows[1]["id"], "alpha");
  EXPECT_EQ(rows[1]["root"], "v1");
  EXPECT_EQ(rows[1]["parent"], "fake");
  EXPECT_EQ(Json::parse(body_of(exchange(port, "GET", "/v1/models/alpha")))["root"], "v1");
  for (const char* path : {"/v1/completions", "/v1/chat/completions"}) {
    const Json answer = post(path, R"({"model": "alpha", "prompt": "x", "max_tokens": 2,
                                       "messages": [{"role": "user", "content": "x"}]})");
    EXPECT_EQ(answer["model"], "alpha");
    EXPECT_EQ(answer["usage"]["lora_name"], "alpha");
    EXPECT_EQ(answer["usage"]["lora_int_id"], rows[1]["lora_int_id"]);
    const Json& choice = answer["choices"][0];
    EXPECT_EQ(choice.contains("text") ? choice["text"] : choice["message"]["content"], "aa");
  }
  EXPECT_FALSE(post("/v1/completions", R"({"model": "fake", "prompt": "x"})")["usage"].contains("lora_name"));
  post("/tokenize", R"({"model": "alpha", "prompt": "x"})");
  post("/detokenize", R"({"model": "alpha", "tokens": [120]})");
  EXPECT_EQ(post_raw("/v1/unload_lora_adapter", R"({"lora_name": "alpha"})", 200),
            "Success: LoRA adapter 'alpha' removed successfully.");
  EXPECT_EQ(models().size(), 1u);
  post("/v1/completions", R"({"model": "alpha", "prompt": "x"})", 404);
}

TEST_F(LoraRoutesTest, StreamsNameTheirAdapter) {
  serve();
  load("alpha", "v1");
  const std::string body = post_raw("/v1/completions",
                                    R"({"model": "alpha", "prompt": "x", "max_tokens": 2, "stream": true,
                                        "stream_options": {"include_usage": true}})",
                                    200);
  EXPECT_NE(body.find(R"("model":"alpha")"), std::string::npos) << body;
  EXPECT_NE(body.find(R"("lora_name":"alpha")"), std::string::npos) << body;
}

TEST_F(LoraRoutesTest, LORA_27_UnknownNamesAreToldWhichThereAre) {
  serve();
  load("alpha", "v1");
  for (const auto& [path, body] :
       {std::pair("/v1/completions", R"({"model": "adaptr-typo", "prompt": "x"})"),
        {"/v1/chat/completions", R"({"model": "adaptr-typo", "messages": [{"role": "user", "content": "x"}]})"},
        {"/tokenize", R"({"model": "adaptr-typo", "prompt": "x"})"},
        {"/detokenize", R"({"model": "adaptr-typo", "tokens": [1]})"}}) {
    const Json error = post(path, body, 404)["error"];
    EXPECT_EQ(error["code"], "model_not_found") << path;
    EXPECT_NE(error["message"].get<std::string>().find("fake, alpha"), std::string::npos) << error;
  }
}

TEST_F(LoraRoutesTest, WrongBodies) {
  serve();
  load("alpha", "v1");
  struct Case {
    const char* path;
    const char* body;
    int status;
    const char* param;
  };
  for (const Case& row : std::vector<Case>{
           {"/v1/load_lora_adapter", R"({})", 400, "lora_name"},
           {"/v1/load_lora_adapter", R"({"lora_name": "b"})", 400, "lora_path"},
           {"/v1/load_lora_adapter", R"({"lora_name": 5, "lora_path": "v1"})", 400, "lora_name"},
           {"/v1/load_lora_adapter", R"({"lora_name": "alpha", "lora_path": "v1"})", 400, "lora_name"},
           {"/v1/load_lora_adapter", R"({"lora_name": "fake", "lora_path": "v1"})", 400, "lora_name"},
           {"/v1/load_lora_adapter", R"({"lora_name": "b", "lora_path": "missing"})", 404, "lora_path"},
           {"/v1/load_lora_adapter", R"({"lora_name": "b", "lora_path": "bad"})", 400, "lora_path"},
           {"/v1/load_lora_adapter", R"({"lora_name": "b", "lora_path": "v1", "load_inplace": "yes"})", 400,
            "load_inplace"},
           {"/v1/load_lora_adapter", R"({"lora_name": "b", "lora_path": "v1", "is_3d_lora_weight": true})", 400,
            "is_3d_lora_weight"},
           {"/v1/unload_lora_adapter", R"({})", 400, "lora_name"},
           {"/v1/unload_lora_adapter", R"({"lora_name": "b"})", 404, "lora_name"},
           {"/v1/unload_lora_adapter", R"({"lora_int_id": 999})", 404, "lora_int_id"},
           {"/v1/unload_lora_adapter", R"({"lora_int_id": 0})", 400, "lora_int_id"}}) {
    const Json error = post(row.path, row.body, row.status)["error"];
    EXPECT_EQ(error["param"], row.param) << row.body;
    EXPECT_EQ(error["type"], row.status == 400 ? "InvalidUserInput" : "NotFoundError") << row.body;
  }
  EXPECT_EQ(models().size(), 2u);
}

TEST_F(LoraRoutesTest, InPlaceReload) {
  serve();
  load("alpha", "v1");
  const Json before = models()[1];
  post_raw("/v1/load_lora_adapter", R"({"lora_name": "alpha", "lora_path": "v2", "load_inplace": true})", 200);
  const Json after = models()[1];
  EXPECT_EQ(after["root"], "v2");
  EXPECT_NE(after["lora_int_id"], before["lora_int_id"]);
}

TEST_F(LoraRoutesTest, WithoutLora) {
  serve({}, false);
  const Json error = post("/v1/load_lora_adapter", R"({"lora_name": "a", "lora_path": "v1"})", 404)["error"];
  EXPECT_NE(error["message"].get<std::string>().find("--enable-lora"), std::string::npos);
  post("/v1/completions", R"({"model": "a", "prompt": "x"})", 404);
  EXPECT_EQ(exchange(port, "GET", "/metrics").find("lora"), std::string::npos);
}

TEST_F(LoraRoutesTest, UpdatesNeedAKeyOrALoopbackAddress) {
  options.host = "0.0.0.0";
  serve();
  const Json error = post("/v1/load_lora_adapter", R"({"lora_name": "a", "lora_path": "v1"})", 403)["error"];
  EXPECT_NE(error["message"].get<std::string>().find("--api-key"), std::string::npos);
  post("/v1/unload_lora_adapter", R"({"lora_name": "a"})", 403);
}

TEST_F(LoraRoutesTest, PagesInABrowserNeedAKeyEvenOnThisMachine) {
  serve();
  const std::string body = R"({"lora_name": "a", "lora_path": "v1"})";
  for (const char* path : {"/v1/load_lora_adapter", "/v1/unload_lora_adapter"}) {
    EXPECT_EQ(status_of(exchange(port, "POST", path, body, "Origin: https://page.example\r\n")), 403) << path;
  }
  EXPECT_EQ(status_of(exchange(port, "POST", "/v1/load_lora_adapter", body)), 200);
}

TEST_F(LoraRoutesTest, SRVR_06_TheKeyGuardsTheRoutes) {
  options.host = "0.0.0.0";
  options.api_keys = {"secret"};
  serve();
  for (const char* path : {"/v1/load_lora_adapter", "/v1/unload_lora_adapter"}) post(path, R"({})", 401);
  const std::string body = R"({"lora_name": "a", "lora_path": "v1"})";
  EXPECT_EQ(status_of(exchange(port, "POST", "/v1/load_lora_adapter", body,
                               "Authorization: Bearer secret\r\nOrigin: https://page.example\r\n")),
            200);
}

TEST_F(LoraRoutesTest, FoldersAreFoundOnTheirFirstUse) {
  const fs::path root = fs::temp_directory_path() / ("quire-lora-routes-" + std::to_string(getpid()));
  fs::remove_all(root);
  const auto add = [&](const std::string& name) {
    fs::create_directories(root / name);
    std::ofstream(root / name / "adapter_config.json") << "{}";
  };
  add("v7");
  add("bad");
  serve({.folder = root});
  EXPECT_EQ(models().size(), 3u);
  EXPECT_EQ(shelf->loads, 0);
  EXPECT_EQ(post("/v1/completions", R"({"model": "v7", "prompt": "x", "max_tokens": 1})")["choices"][0]["text"], "v");
  add("v8");
  EXPECT_EQ(models().size(), 4u);
  post("/v1/completions", R"({"model": "v8", "prompt": "x", "max_tokens": 1})");
  const Json error = post("/v1/completions", R"({"model": "bad", "prompt": "x"})", 400)["error"];
  EXPECT_EQ(error["param"], "model");
  EXPECT_NE(error["message"].get<std::string>().find("bad is no adapter"), std::string::npos);
  for (const char* name : {"../v7", "v7/", ".", "..", "/etc"}) {
    post("/v1/completions", Json{{"model", name}, {"prompt", "x"}}.dump(), 404);
  }
  post("/v1/completions", R"({"model": "fake", "prompt": "x"})");
  fs::remove_all(root);
}

TEST_F(LoraRoutesTest, RequestsWaitForASlowLoadAndOthersGoOn) {
  const fs::path root = fs::temp_directory_path() / ("quire-lora-slow-" + std::to_string(getpid()));
  fs::create_directories(root / "v3");
  std::ofstream(root / "v3" / "adapter_config.json") << "{}";
  serve({.folder = root});
  std::promise<void> go;
  const std::shared_future<void> gate = go.get_future().share();
  shelf->on_load = [gate](const std::string&) { gate.wait(); };
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 8; ++i) {  // more than there are text threads
    clients.push_back(std::make_unique<RawClient>(port));
    clients.back()->send_bytes(http_request(
        "POST", "/v1/completions", R"({"model": "v3", "prompt": "x", "max_tokens": 1})", "Connection: close\r\n"));
  }
  post("/v1/completions", R"({"prompt": "x", "max_tokens": 1})");
  go.set_value();
  for (const auto& client : clients) EXPECT_EQ(status_of(client->read_to_end()), 200);
  EXPECT_EQ(shelf->loads, 1);
  fs::remove_all(root);
}

TEST_F(LoraRoutesTest, StoppingWhileALoadIsAwaited) {
  const fs::path root = fs::temp_directory_path() / ("quire-lora-stop-" + std::to_string(getpid()));
  fs::create_directories(root / "v3");
  std::ofstream(root / "v3" / "adapter_config.json") << "{}";
  serve({.folder = root});
  std::promise<void> go;
  const std::shared_future<void> gate = go.get_future().share();
  std::promise<void> begun;
  shelf->on_load = [&begun, gate](const std::string&) {
    begun.set_value();
    gate.wait();
  };
  RawClient client(port);
  client.send_bytes(http_request("POST", "/v1/completions", R"({"model": "v3", "prompt": "x"})"));
  begun.get_future().wait();
  server.reset();
  go.set_value();
  backend->catalog->close();
  fs::remove_all(root);
}

TEST_F(LoraRoutesTest, LORA_34_PerRequestWeightsAreRefusedByName) {
  serve();
  load("alpha", "v1");
  for (const char* field : {"lora_scale", "lora_weight", "lora_path", "lora", "lora_request", "adapter_id"}) {
    Json body = {{"model", "alpha"}, {"prompt", "x"}};
    body[field] = 0.5;
    EXPECT_EQ(post("/v1/completions", body.dump(), 400)["error"]["param"], field);
  }
}

TEST_F(LoraRoutesTest, Metrics) {
  serve();
  load("alpha", "v1");
  post("/v1/completions", R"({"model": "alpha", "prompt": ["x", "y"], "max_tokens": 1})");
  post("/v1/load_lora_adapter", R"({"lora_name": "b", "lora_path": "bad"})", 400);
  const std::string text = body_of(exchange(port, "GET", "/metrics"));
  for (const char* line :
       {"vllm:lora_requests_info{engine=\"0\",model_name=\"fake\",max_lora=\"inf\",running_lora_adapters=\"alpha\","
        "waiting_lora_adapters=\"\"}",
        "quire:lora_adapters_loaded{engine=\"0\",model_name=\"fake\"} 1",
        "quire:lora_adapter_bytes{engine=\"0\",model_name=\"fake\"} 1000", "result=\"success\"} 1",
        "result=\"error\"} 1", "quire:lora_load_seconds_count{engine=\"0\",model_name=\"fake\"} 1",
        "quire:lora_requests_total{engine=\"0\",model_name=\"fake\",lora_name=\"alpha\"} 2"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
}

}  // namespace
}  // namespace quire

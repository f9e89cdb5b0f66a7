// A server over loopback in front of a scripted engine, started by each test.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "server/fake_backend.h"
#include "server/http_client.h"
#include "server/server.h"

namespace quire {

class ServingTest : public testing::Test {
 protected:
  using Json = nlohmann::ordered_json;

  /// Serves `engine` with `options` on a free port.
  void start(std::unique_ptr<FakeBackend> engine) {
    options.port = 0;
    backend = std::move(engine);
    auto address = BoundAddress::bind(options.host, options.port);
    ASSERT_TRUE(address.ok()) << address.error().message;
    auto started = Server::start(options, *backend, std::move(address).value());
    ASSERT_TRUE(started.ok()) << started.error().message;
    server = std::move(started).value();
    port = server->port();
  }
  void TearDown() override {
    server.reset();
    backend.reset();
  }
  std::string post_raw(const std::string& path, const std::string& body, int expected) const {
    const std::string response = exchange(port, "POST", path, body);
    EXPECT_EQ(status_of(response), expected) << response;
    return body_of(response);
  }
  Json post(const std::string& path, const std::string& body, int expected = 200) const {
    return Json::parse(post_raw(path, body, expected));
  }

  ServerOptions options;
  std::unique_ptr<FakeBackend> backend;
  std::unique_ptr<Server> server;
  uint16_t port = 0;
};

}  // namespace quire

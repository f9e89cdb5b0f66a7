// The life of adapters: loads, reloads, unloads and evictions, with requests under way.
#include "api/adapter_catalog.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <random>
#include <thread>

#include "fake_adapters.h"

namespace quire {
namespace {

using test::AdapterService;
using test::AdapterShelf;

std::vector<int32_t> all_of_version(int32_t version, size_t count) {
  return std::vector<int32_t>(count, 100 + version);
}

bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 2000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return condition();
}

std::vector<std::string> names_in_memory(const AdapterCatalog& catalog) {
  std::vector<std::string> names;
  for (const AdapterListing& row : catalog.list()) {
    if (row.id) names.push_back(row.spec.name);
  }
  return names;
}

TEST(AdapterCatalog, LORA_20_AReloadIsAnotherAdapter) {
  AdapterService service;
  std::vector<int32_t> prompt(64, 9);
  const AdapterLease first = service.load("a", "v1").value();
  EXPECT_EQ(service.submit(first, 5, prompt)->wait(), all_of_version(1, 5));
  ASSERT_TRUE(service.llm->adapters()->unload("a", std::nullopt).ok());
  const AdapterLease second = service.load("a", "v2").value();
  EXPECT_NE(first->id, second->id);
  const auto answer = service.submit(second, 5, prompt);
  EXPECT_EQ(answer->wait(), all_of_version(2, 5));
  EXPECT_EQ(answer->usage().cached_tokens, 0) << "no page of the old weights";
  const auto again = service.submit(service.acquire("a").value(), 5, prompt);
  again->wait();
  EXPECT_EQ(again->usage().cached_tokens, 48);
  EXPECT_TRUE(service.shelf->faults().empty());
}

TEST(AdapterCatalog, LORA_26_WhatRunsFinishesAndThenTheMemoryIsFree) {
  AdapterService service;
  auto running = service.submit(service.load("a", "v1").value(), 400);
  running->wait_tokens(10);
  ASSERT_TRUE(service.llm->adapters()->unload("a", std::nullopt).ok());
  const Result<AdapterLease> gone = service.acquire("a");
  ASSERT_FALSE(gone.ok());
  EXPECT_EQ(gone.error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(service.shelf->size(), 1u) << "the stream still needs it";
  EXPECT_EQ(running->wait(), all_of_version(1, 400));
  EXPECT_TRUE(eventually([&] { return service.shelf->size() == 0; }));
  EXPECT_EQ(service.llm->adapters()->stats().loads.loaded, 0);
  EXPECT_EQ(service.llm->adapters()->stats().loads.bytes, 0);
}

TEST(AdapterCatalog, AnInPlaceReloadLetsStreamsFinishWithTheirWeights) {
  AdapterService service;
  auto old_stream = service.submit(service.load("a", "v1").value(), 300);
  old_stream->wait_tokens(5);
  EXPECT_FALSE(service.load("a", "v2").ok()) << "not without load_inplace";
  ASSERT_TRUE(service.load("a", "v2", true).ok());
  auto new_stream = service.submit(service.acquire("a").value(), 300);
  EXPECT_EQ(old_stream->wait(), all_of_version(1, 300));
  EXPECT_EQ(new_stream->wait(), all_of_version(2, 300));
  EXPECT_TRUE(eventually([&] { return service.shelf->size() == 1; }));
  EXPECT_TRUE(service.shelf->faults().empty());
}

TEST(AdapterCatalog, LORA_16_AFailedLoadChangesNothing) {
  AdapterService service;
  EXPECT_EQ(service.load("a", "missing").error().kind, ErrorKind::kNotFound);
  const Result<AdapterLease> bad = service.load("a", "bad");
  EXPECT_EQ(bad.error().param, "lora_path");
  EXPECT_TRUE(service.llm->adapters()->list().empty());
  ASSERT_TRUE(service.load("a", "v1").ok());
  EXPECT_FALSE(service.load("a", "bad", true).ok());
  EXPECT_EQ(service.submit(service.acquire("a").value(), 2)->wait(), all_of_version(1, 2)) << "the old one is served";
  EXPECT_EQ(service.llm->adapters()->stats().loads.failures, 3);
}

TEST(AdapterCatalog, RefusesNames) {
  AdapterService service;
  service.llm->adapters()->reserve_names({"base"});
  for (const std::string& name : {std::string("base"), std::string(), std::string("a\nb"), std::string(300, 'x')}) {
    const Result<AdapterLease> refused = service.load(name, "v1");
    ASSERT_FALSE(refused.ok()) << name;
    EXPECT_EQ(refused.error().param, "lora_name");
  }
  for (const std::string& path : {std::string(), std::string("v1\0", 3), std::string("v1\nINFO all is well")}) {
    EXPECT_EQ(service.load("a", path).error().param, "lora_path");
  }
  EXPECT_FALSE(service.llm->adapters()->unload("nobody", std::nullopt).ok());
  const uint64_t id = service.load("a", "v1").value()->id;
  EXPECT_FALSE(service.llm->adapters()->unload("a", id + 1).ok());
  EXPECT_EQ(service.llm->adapters()->unload("", id).value(), "a");
}

TEST(AdapterCatalog, RequestsThatComeTogetherShareOneLoad) {
  AdapterService service(LoraConfig{.max_cpu_loras = 1});
  ASSERT_TRUE(service.load("a", "v1").ok());
  ASSERT_TRUE(service.load("b", "v2").ok());  // "a" leaves memory
  ASSERT_EQ(names_in_memory(*service.llm->adapters()), std::vector<std::string>{"b"});
  std::promise<void> go;
  const std::shared_future<void> gate = go.get_future().share();
  service.shelf->on_load = [gate](const std::string&) { gate.wait(); };
  const int before = service.shelf->loads;
  constexpr int kRequests = 20;
  std::vector<std::promise<Result<AdapterLease>>> promises(kRequests);
  for (auto& promise : promises) {
    service.llm->adapters()->acquire("a", [&](Result<AdapterLease> lease) { promise.set_value(std::move(lease)); });
  }
  go.set_value();
  std::set<uint64_t> ids;
  for (auto& promise : promises) ids.insert(promise.get_future().get().value()->id);
  EXPECT_EQ(ids.size(), 1u);
  EXPECT_EQ(service.shelf->loads, before + 1);
}

TEST(AdapterCatalog, TheLongestUnusedIdleAdapterLeavesMemory) {
  AdapterService service(LoraConfig{.max_cpu_loras = 2});
  AdapterCatalog& catalog = *service.llm->adapters();
  ASSERT_TRUE(service.load("pinned", "v9", false, true).ok());
  ASSERT_TRUE(service.load("a", "v1").ok());
  ASSERT_TRUE(service.load("b", "v2").ok());
  EXPECT_EQ(names_in_memory(catalog), (std::vector<std::string>{"b", "pinned"}));
  EXPECT_EQ(catalog.list().size(), 3u) << "still on offer";
  EXPECT_EQ(service.submit(service.acquire("a").value(), 3)->wait(), all_of_version(1, 3)) << "read again";
  EXPECT_TRUE(eventually([&] { return names_in_memory(catalog) == std::vector<std::string>{"a", "pinned"}; }));
  EXPECT_EQ(catalog.stats().evictions, 2);
  EXPECT_EQ(service.shelf->size(), 2u);
}

TEST(AdapterCatalog, LORA_24_AdaptersInUseNeverLeave) {
  AdapterService service(LoraConfig{.max_cpu_loras = 1});
  AdapterCatalog& catalog = *service.llm->adapters();
  auto one = service.submit(service.load("one", "v1").value(), 400);
  auto two = service.submit(service.load("two", "v2").value(), 400);
  for (int i = 3; i < 40; ++i) {
    ASSERT_TRUE(service.load("n" + std::to_string(i), "v" + std::to_string(i)).ok());
    const std::vector<std::string> names = names_in_memory(catalog);
    const bool there = std::ranges::count(names, "one") == 1;
    EXPECT_TRUE(there || one->usage().completion_tokens == 400);
  }
  EXPECT_EQ(one->wait(), all_of_version(1, 400));
  EXPECT_EQ(two->wait(), all_of_version(2, 400));
  EXPECT_TRUE(eventually([&] { return service.shelf->size() == 1; })) << "then the limit holds again";
  EXPECT_TRUE(service.shelf->faults().empty());
}

TEST(AdapterCatalog, UseAddsOnceAndHoldsToThePath) {
  AdapterService service;
  AdapterCatalog& catalog = *service.llm->adapters();
  EXPECT_FALSE(catalog.use_and_wait({"a", "bad", {}, false}).ok());
  EXPECT_FALSE(catalog.knows("a"));
  const AdapterLease first = catalog.use_and_wait({"a", "v1", {}, false}).value();
  EXPECT_EQ(catalog.use_and_wait({"a", "v1", {}, false}).value()->id, first->id);
  const Result<AdapterLease> other = catalog.use_and_wait({"a", "v2", {}, false});
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("v2"), std::string::npos);
}

TEST(AdapterCatalog, TheEndAnswersThoseWhoWait) {
  std::promise<void> go;
  const std::shared_future<void> gate = go.get_future().share();
  auto service = std::make_unique<AdapterService>();
  const std::shared_ptr<AdapterShelf> shelf = service->shelf;
  shelf->on_load = [gate](const std::string&) { gate.wait(); };
  std::atomic<int> answers{0};
  service->llm->adapters()->load({"a", "v1", {}, false}, false, [&](const Result<AdapterLease>&) { ++answers; });
  for (int i = 0; i < 3; ++i) {
    service->llm->adapters()->use({"b", "v1", {}, false}, [&](const Result<AdapterLease>& lease) {
      EXPECT_FALSE(lease.ok());
      ++answers;
    });
  }
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    go.set_value();
  });
  service.reset();
  opener.join();
  EXPECT_EQ(answers, 4);
}

TEST(AdapterCatalog, ALeaseMayOutliveTheService) {
  AdapterLease lease;
  {
    AdapterService service;
    lease = service.load("a", "v1").value();
  }
  lease.reset();
}

TEST(AdapterCatalog, NoCallWaitsForALoad) {
  AdapterService service;
  ASSERT_TRUE(service.load("a", "v1").ok());
  std::promise<void> go;
  const std::shared_future<void> gate = go.get_future().share();
  service.shelf->on_load = [gate](const std::string&) { gate.wait(); };
  std::promise<Result<AdapterLease>> slow;
  service.llm->adapters()->load({"b", "v2", {}, false}, false,
                                [&](Result<AdapterLease> lease) { slow.set_value(std::move(lease)); });
  EXPECT_EQ(service.submit(service.acquire("a").value(), 20)->wait(), all_of_version(1, 20));
  EXPECT_EQ(service.llm->adapters()->list().size(), 1u) << "not listed before it is loaded";
  service.llm->adapters()->stats();
  go.set_value();
  EXPECT_TRUE(slow.get_future().get().ok());
}

/// Loads, reloads, unloads and evictions while requests come from several threads: every request has one version from
/// beginning to end, no step names an adapter that is gone, and at the end nothing is left over.
TEST(AdapterCatalog, TrafficAndChangesTogether) {
  AdapterService service(LoraConfig{.max_loras = 2, .max_cpu_loras = 3}, std::chrono::microseconds(10));
  AdapterCatalog& catalog = *service.llm->adapters();
  constexpr int kNames = 6, kClients = 3, kRequests = 150;
  for (int i = 0; i < kNames; ++i) ASSERT_TRUE(service.load("n" + std::to_string(i), "v1").ok());
  std::atomic<bool> done{false};
  std::thread changer([&] {
    std::mt19937 random(3);
    for (int version = 2; !done; ++version) {
      const std::string name = "n" + std::to_string(random() % kNames);
      if (random() % 4 == 0) {
        (void)catalog.unload(name, std::nullopt);
      } else {
        EXPECT_TRUE(service.load(name, "v" + std::to_string(version % 300), true, random() % 8 == 0).ok());
      }
    }
  });
  std::vector<std::thread> clients;
  std::atomic<int> served{0};
  for (int t = 0; t < kClients; ++t) {
    clients.emplace_back([&, t] {
      std::mt19937 random(static_cast<uint32_t>(100 + t));
      for (int i = 0; i < kRequests; ++i) {
        Result<AdapterLease> lease = service.acquire("n" + std::to_string(random() % kNames));
        if (!lease.ok()) continue;
        const auto answer = service.submit(std::move(lease).value(), 1 + random() % 12);
        if (i % 3 == 0) continue;  // nobody waits for it
        const std::vector<int32_t> tokens = answer->wait();
        EXPECT_EQ(std::ranges::count(tokens, tokens.front()), static_cast<int64_t>(tokens.size()));
        ++served;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  done = true;
  changer.join();
  EXPECT_GT(served, 20);
  for (int i = 0; i < kNames; ++i) (void)catalog.unload("n" + std::to_string(i), std::nullopt);
  EXPECT_TRUE(eventually([&] { return service.shelf->size() == 0; }));
  EXPECT_EQ(catalog.stats().loads.loaded, 0);
  const std::vector<std::string> faults = service.shelf->faults();
  EXPECT_TRUE(faults.empty()) << faults.front();
}

}  // namespace
}  // namespace quire

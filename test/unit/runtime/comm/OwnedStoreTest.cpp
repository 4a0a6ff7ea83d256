//===- OwnedStoreTest.cpp - A c10d store that is left at a deadline -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/processes/OwnedStore.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <future>
#include <set>
#include <thread>

using namespace fsdp;
using namespace std::chrono_literals;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

namespace {

/// What is left of a store that its thread may outlive the test with.
struct Trace {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::promise<void> hanging, released, ended;
  std::shared_future<void> release = released.get_future().share();

  void note() {
    std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  }
};

/// A store whose server does not answer for one key.
class HangingStore final : public c10d::HashStore {
public:
  explicit HangingStore(std::shared_ptr<Trace> trace)
      : trace(std::move(trace)) {
    this->trace->note();
  }
  ~HangingStore() override {
    trace->note();
    trace->ended.set_value();
  }
  bool check(const std::vector<std::string> &keys) override {
    trace->note();
    if (keys[0] == "hang") {
      trace->hanging.set_value();
      trace->release.wait();
    }
    return HashStore::check(keys);
  }

private:
  std::shared_ptr<Trace> trace;
};

class Owned : public testing::Test {
protected:
  c10::intrusive_ptr<OwnedStore> make(std::chrono::milliseconds patience) {
    return c10::make_intrusive<OwnedStore>(
        [trace = trace]() -> c10::intrusive_ptr<c10d::Store> {
          return c10::make_intrusive<HangingStore>(trace);
        },
        Clock::now() + 60s, patience);
  }

  /// What it says, within `least` and two seconds more.
  template <typename Call>
  static std::string failure(std::chrono::milliseconds least, Call call) {
    auto begin = Clock::now();
    std::string text = "nothing failed";
    try {
      call();
    } catch (const std::exception &error) {
      text = error.what();
    }
    EXPECT_GE(Clock::now() - begin, least);
    EXPECT_LT(Clock::now() - begin, least + 2s);
    return text;
  }

  std::shared_ptr<Trace> trace = std::make_shared<Trace>();
};

TEST_F(Owned, IsCalledByOneThreadAlone) {
  {
    auto store = make(60s);
    store->set("a", "1");
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        EXPECT_EQ(store->get_to_str("a"), "1");
        EXPECT_EQ(store->compareSet("a", "", "2"), "1");
        EXPECT_FALSE(store->check({"b"}));
        store->add("n", 2);
      });
    for (std::thread &thread : threads)
      thread.join();
    EXPECT_EQ(store->add("n", 0), 8);
    EXPECT_EQ(store->getNumKeys(), 2);
    EXPECT_TRUE(store->deleteKey("a"));
    EXPECT_THAT(failure(100ms, [&] { store->wait({"a"}, 100ms); }),
                HasSubstr("nobody set a key within 0.1 s"));
  }
  // Whoever drops it finds it ended.
  EXPECT_EQ(trace->ended.get_future().wait_for(0s), std::future_status::ready);
  EXPECT_EQ(trace->threads.size(), 1u);
  EXPECT_FALSE(trace->threads.contains(std::this_thread::get_id()));
}

TEST_F(Owned, IsGivenUpAtTheDeadline) {
  auto store = make(500ms);
  EXPECT_THAT(failure(500ms, [&] { store->check({"hang"}); }),
              HasSubstr("no answer within 0.5 s"));
  EXPECT_THAT(failure(0ms, [&] { store->set("a", "1"); }),
              HasSubstr("no answer within 0.5 s"));
  // The thread is still away, and nobody waits for it.
  store.reset();
  auto ended = trace->ended.get_future();
  EXPECT_EQ(ended.wait_for(0s), std::future_status::timeout);
  trace->released.set_value();
  EXPECT_EQ(ended.wait_for(60s), std::future_status::ready);
  EXPECT_EQ(trace->threads.size(), 1u);
}

TEST_F(Owned, IsGivenUpForAllWhoWait) {
  auto store = make(2s);
  std::thread first([&] {
    EXPECT_THAT(failure(2s, [&] { store->check({"hang"}); }),
                HasSubstr("no answer"));
  });
  trace->hanging.get_future().wait();
  std::this_thread::sleep_for(1s);
  // It came later, and would have waited for longer.
  auto begin = Clock::now();
  EXPECT_THAT(failure(0ms, [&] { store->check({"a"}); }),
              HasSubstr("no answer"));
  EXPECT_LT(Clock::now() - begin, 1900ms);
  first.join();
  trace->released.set_value();
}

TEST_F(Owned, SaysWhyItCannotBeMade) {
  auto fail = [](const OwnedStore::Make &make) {
    c10::make_intrusive<OwnedStore>(make, Clock::now() + 300ms, 60s);
  };
  EXPECT_EQ(failure(0ms,
                    [&] {
                      fail([]() -> c10::intrusive_ptr<c10d::Store> {
                        throw std::runtime_error("nobody listens there");
                      });
                    }),
            "nobody listens there");
  EXPECT_THAT(
      failure(300ms,
              [&] {
                fail([trace = trace]() -> c10::intrusive_ptr<c10d::Store> {
                  trace->release.wait();
                  return c10::make_intrusive<HangingStore>(trace);
                });
              }),
      HasSubstr("no answer within 0.3 s"));
  auto ended = trace->ended.get_future();
  trace->released.set_value();
  EXPECT_EQ(ended.wait_for(60s), std::future_status::ready);
}

} // namespace

//===- OwnedStore.cpp - A c10d store that is left at a deadline -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/processes/OwnedStore.h"
#include "runtime/comm/Label.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <type_traits>
#include <utility>

using namespace fsdp;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

static constexpr milliseconds kLongestStorePause(50);

/// What the thread and its callers share; a thread that is left to itself keeps
/// it.
struct OwnedStore::Shared {
  struct Call {
    Act act;
    bool isDone = false;
    std::exception_ptr error;
  };

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::shared_ptr<Call>> calls;
  /// Nobody will call it any more.
  bool isOver = false;
  /// Why it was given up; empty if it was not.
  std::string reason;
};

OwnedStore::OwnedStore(Make make, Clock::time_point end, milliseconds patience)
    : Store(patience), patience(patience), shared(std::make_shared<Shared>()),
      thread([shared = shared] { run(shared); }) {
  try {
    callUntil(end, [make = std::move(make)](auto &store) { store = make(); });
  } catch (...) {
    this->end();
    throw;
  }
}

OwnedStore::~OwnedStore() { end(); }

void OwnedStore::end() noexcept {
  bool isGivenUp;
  {
    std::lock_guard lock(shared->mutex);
    shared->isOver = true;
    isGivenUp = !shared->reason.empty();
  }
  shared->changed.notify_all();
  if (isGivenUp)
    thread.detach();
  else
    thread.join();
}

void OwnedStore::run(const std::shared_ptr<Shared> &shared) {
  // Ends with the thread, and while nobody is kept waiting.
  c10::intrusive_ptr<c10d::Store> store;
  std::unique_lock lock(shared->mutex);
  while (true) {
    shared->changed.wait(
        lock, [&] { return shared->isOver || !shared->calls.empty(); });
    if (shared->isOver)
      return;
    std::shared_ptr<Shared::Call> call = std::move(shared->calls.front());
    shared->calls.pop_front();
    lock.unlock();
    try {
      call->act(store);
    } catch (...) {
      call->error = std::current_exception();
    }
    lock.lock();
    call->isDone = true;
    shared->changed.notify_all();
  }
}

void OwnedStore::callUntil(Clock::time_point end, Act act) {
  auto call = std::make_shared<Shared::Call>();
  call->act = std::move(act);
  auto begin = Clock::now();
  std::unique_lock lock(shared->mutex);
  shared->calls.push_back(call);
  shared->changed.notify_all();
  shared->changed.wait_until(
      lock, end, [&] { return call->isDone || !shared->reason.empty(); });
  if (call->isDone) {
    if (call->error)
      std::rethrow_exception(call->error);
    return;
  }
  if (shared->reason.empty()) {
    shared->reason =
        "no answer within " +
        describe(std::chrono::ceil<milliseconds>(Clock::now() - begin));
    shared->calls.clear();
    shared->changed.notify_all();
  }
  throw std::runtime_error(shared->reason);
}

template <typename OnStore>
auto OwnedStore::call(OnStore act) {
  auto result =
      std::make_shared<std::invoke_result_t<OnStore, c10d::Store &>>();
  callUntil(Clock::now() + patience,
            [result, act](auto &store) { *result = act(*store); });
  return std::move(*result);
}

void OwnedStore::set(const std::string &key,
                     const std::vector<uint8_t> &value) {
  call([=](c10d::Store &store) {
    store.set(key, value);
    return true;
  });
}

std::vector<uint8_t>
OwnedStore::compareSet(const std::string &key,
                       const std::vector<uint8_t> &expected,
                       const std::vector<uint8_t> &desired) {
  return call([=](c10d::Store &store) {
    return store.compareSet(key, expected, desired);
  });
}

std::vector<uint8_t> OwnedStore::get(const std::string &key) {
  wait({key});
  return call([=](c10d::Store &store) { return store.get(key); });
}

int64_t OwnedStore::add(const std::string &key, int64_t value) {
  return call([=](c10d::Store &store) { return store.add(key, value); });
}

bool OwnedStore::deleteKey(const std::string &key) {
  return call([=](c10d::Store &store) { return store.deleteKey(key); });
}

bool OwnedStore::check(const std::vector<std::string> &keys) {
  return call([=](c10d::Store &store) { return store.check(keys); });
}

int64_t OwnedStore::getNumKeys() {
  return call([](c10d::Store &store) { return store.getNumKeys(); });
}

void OwnedStore::wait(const std::vector<std::string> &keys) {
  wait(keys, getTimeout());
}

void OwnedStore::wait(const std::vector<std::string> &keys,
                      const milliseconds &timeout) {
  auto end = Clock::now() + timeout;
  for (milliseconds pause(1); !check(keys);
       pause = std::min(2 * pause, kLongestStorePause)) {
    if (Clock::now() >= end)
      throw std::runtime_error("nobody set a key within " + describe(timeout));
    std::this_thread::sleep_for(pause);
  }
}

c10::intrusive_ptr<c10d::Store> OwnedStore::clone() {
  return c10::intrusive_ptr<c10d::Store>::reclaim_copy(this);
}

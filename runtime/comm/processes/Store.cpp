//===- Store.cpp - Values that the ranks share ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/processes/Store.h"
#include "support/Error.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <algorithm>
#include <thread>

using namespace fsdp;

Store::Store(c10::intrusive_ptr<c10d::Store> base, std::string prefix,
             bool servedHere)
    : base(std::move(base)), prefix(std::move(prefix)), servedHere(servedHere) {
}

Store::~Store() = default;

/// The first line of what a library says, without its stack trace.
static std::string firstLine(const std::exception &error) {
  std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

template <typename Call>
static auto guarded(const std::string &key, Call call) {
  try {
    return call();
  } catch (const std::exception &error) {
    throw Error(ErrorId::RendezvousFailed,
                "expected the store where the ranks meet to answer for key '" +
                    key + "', found: " + firstLine(error) +
                    "; the process that serves it (rank 0, or the launcher) "
                    "ended or hangs");
  }
}

void Store::set(const std::string &key, const std::string &value) {
  guarded(key, [&] { base->set(prefix + key, value); });
}

std::string Store::setFirst(const std::string &key, const std::string &value) {
  return guarded(key,
                 [&] { return base->compareSet(prefix + key, "", value); });
}

std::optional<std::string> Store::tryGet(const std::string &key) {
  return guarded(key, [&]() -> std::optional<std::string> {
    if (!base->check({prefix + key}))
      return std::nullopt;
    return base->get_to_str(prefix + key);
  });
}

std::optional<std::string>
Store::wait(const std::string &key,
            std::chrono::steady_clock::time_point deadline) {
  // Asking again and again leaves the connection free in between and lets the
  // caller's deadline count, which a blocking `get` would not.
  std::chrono::milliseconds pause(1);
  while (true) {
    if (std::optional<std::string> value = tryGet(key))
      return value;
    if (std::chrono::steady_clock::now() >= deadline)
      return std::nullopt;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::milliseconds(50));
  }
}

c10::intrusive_ptr<c10d::Store> Store::under(const std::string &purpose) const {
  return c10::make_intrusive<c10d::PrefixStore>(prefix + purpose, base);
}

//===- TcpStore.cpp - Connections to c10d's TCP store ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/processes/TcpStore.h"
#include "runtime/comm/processes/Listener.h"
#include "runtime/comm/processes/OwnedStore.h"

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <stdexcept>

using namespace fsdp;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// c10d waits up to twice as long, in pauses that grow, for a server that is
/// not there. Whoever listened a moment ago needs no more; if it is gone, it is
/// waited for here.
static constexpr milliseconds kAttempt(1000);

c10::intrusive_ptr<c10d::Store>
fsdp::connectTcpStore(const std::string &host, int port, bool serves,
                      milliseconds deadline,
                      const std::function<void(const std::string &)> &note) {
  auto end = Clock::now() + deadline;
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(port);
  options.isServer = serves;
  if (serves) {
    options.masterListenFd = listenAt(host, port);
    if (!options.masterListenFd && note)
      note("'" + host +
           "' is no address of this machine that others could know it by: the "
           "ranks' store listens at all of its addresses");
  }
  // Who is missing is found out by name, once the store is there.
  options.waitWorkers = false;
  options.timeout = serves ? std::max(deadline, kAttempt) : kAttempt;
  auto make = [=] {
    auto store = c10::make_intrusive<c10d::TCPStore>(host, options);
    store->setTimeout(deadline);
    return store;
  };
  while (true) {
    if (!serves && !waitForListener(host, port, end))
      throw std::runtime_error("nobody listens there");
    try {
      return c10::make_intrusive<OwnedStore>(make, end + kAttempt, deadline);
    } catch (const std::exception &) {
      if (serves || Clock::now() >= end)
        throw;
    }
  }
}

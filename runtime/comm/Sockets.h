//===- Sockets.h - Deadlines that c10d's store does not keep ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_SOCKETS_H
#define FSDP_RUNTIME_COMM_SOCKETS_H

#include <chrono>
#include <optional>
#include <string>
#include <thread>

namespace fsdp {

/// Waits until somebody listens at the address; false if nobody does by `end`.
/// c10d, left to itself, tries in intervals that grow, and looks at the time
/// after them only: twice what it was given is not rare.
bool waitForListener(const std::string &host, int port,
                     std::chrono::steady_clock::time_point end);

/// Whether `host` is this machine's loopback, written for IPv4.
bool isLoopback(const std::string &host);

/// A socket that listens for IPv4 at `port`, if `host` is this machine's
/// loopback; the caller's to close. For c10d's store, which, left to itself,
/// listens for IPv6 as well, then asks a name server who ::ffff:127.0.0.1 is,
/// for its log, and answers nobody meanwhile: seconds where no name server
/// answers. Empty for other hosts, or if the port is taken.
std::optional<int> listenOnLoopback(const std::string &host, int port);

/// Reads from and writes to those of this process's sockets that are connected
/// to a `port`, wherever, fail when they have waited for so long. c10d's store
/// would wait without end for a server that is stopped, or whose machine is
/// lost, since nobody closes the connection.
void limitWaits(int port, std::chrono::milliseconds time);

/// While it lives, and from `end` on, breaks the connections of this process to
/// a `port`, so that whoever waits for an answer over one gets an error. For
/// c10d's store, which greets its server before waits can be limited.
class BreakAtDeadline {
public:
  BreakAtDeadline(int port, std::chrono::steady_clock::time_point end);

private:
  std::jthread thread;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_SOCKETS_H

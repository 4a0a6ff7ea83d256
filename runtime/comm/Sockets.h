//===- Sockets.h - Deadlines that c10d's store does not keep ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_SOCKETS_H
#define FSDP_RUNTIME_COMM_SOCKETS_H

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace fsdp {

/// Waits until somebody listens at the address; false if nobody does by `end`.
/// c10d, left to itself, tries in intervals that grow, and looks at the time
/// after them only: twice what it was given is not rare.
bool waitForListener(const std::string &host, int port,
                     std::chrono::steady_clock::time_point end);

/// Whether `host` is this machine's loopback, written for IPv4.
bool isLoopback(const std::string &host);

/// A socket that listens at `host` and `port`, and nowhere else; the caller's
/// to close. c10d's store, left to itself, listens at all addresses of the
/// machine; it also listens for IPv6, then asks a name server who
/// ::ffff:127.0.0.1 is, for its log, and answers nobody meanwhile: seconds
/// where no name server answers. Empty where others reach this machine at an
/// address that it does not know itself: one that is translated on the way, or
/// a name that is the loopback here alone, as systems give their own. Throws
/// std::system_error if the port is taken.
std::optional<int> listenAt(const std::string &host, int port);

/// The connections of this process to one address that are made while it lives:
/// others, of whoever else is in the process, are left alone.
class NewConnections {
public:
  NewConnections(const std::string &host, int port);

  /// Reads and writes fail when they have waited for so long. c10d's store
  /// would wait without end for a server that is stopped, or whose machine is
  /// lost, since nobody closes the connection.
  void limitWaits(std::chrono::milliseconds time) const;
  /// Whoever waits for an answer over one gets an error.
  void breakAll() const;

private:
  template <typename Act>
  void forEach(Act act) const;

  std::vector<std::string> addresses; ///< without ports, as bytes
  const int port;
  std::set<uint64_t> before; ///< sockets that were there, by inode
};

/// While it lives, and from `end` on, breaks these connections. For c10d's
/// store, which greets its server before waits can be limited.
class BreakAtDeadline {
public:
  /// `connections` outlive it.
  BreakAtDeadline(const NewConnections &connections,
                  std::chrono::steady_clock::time_point end);

private:
  std::jthread thread;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_SOCKETS_H

//===- Listener.h - Where the ranks' store listens --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_PROCESSES_LISTENER_H
#define FSDP_RUNTIME_COMM_PROCESSES_LISTENER_H

#include <chrono>
#include <optional>
#include <string>

namespace fsdp {

/// Waits until somebody listens at the address; false if nobody does by `end`.
/// c10d, left to itself, tries in pauses that grow: it finds a server that
/// comes after 8 s up to 2 s late, and looks at the time after them only.
bool waitForListener(const std::string &host, int port,
                     std::chrono::steady_clock::time_point end);

/// A socket that listens at `host` and `port`, and nowhere else; the caller's
/// to close. c10d's store, left to itself, listens at all addresses of the
/// machine; it also listens for IPv6, then asks a name server who
/// ::ffff:127.0.0.1 is, for its log, and answers nobody meanwhile: seconds
/// where no name server answers. Empty where others reach this machine at an
/// address that it does not know itself: one that is translated on the way, or
/// a name that is the loopback here alone, as systems give their own. Throws
/// std::system_error if the port is taken.
std::optional<int> listenAt(const std::string &host, int port);

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_PROCESSES_LISTENER_H

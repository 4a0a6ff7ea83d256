//===- TcpStore.h - Connections to c10d's TCP store -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_TCPSTORE_H
#define FSDP_RUNTIME_COMM_TCPSTORE_H

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <functional>
#include <string>

namespace c10d {
class TCPStore;
}

namespace fsdp {

/// Connects to the store that another process serves, or begins to serve it,
/// within `deadline` and at most two seconds more. Calls of the store take as
/// long. `note` is told where it serves at more than `host`. Throws a
/// std::exception that says what it found.
c10::intrusive_ptr<c10d::TCPStore>
connectTcpStore(const std::string &host, int port, bool serves,
                std::chrono::milliseconds deadline,
                const std::function<void(const std::string &)> &note = {});

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_TCPSTORE_H

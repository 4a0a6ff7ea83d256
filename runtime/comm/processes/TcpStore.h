//===- TcpStore.h - Connections to c10d's TCP store -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_PROCESSES_TCPSTORE_H
#define FSDP_RUNTIME_COMM_PROCESSES_TCPSTORE_H

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <functional>
#include <string>

namespace fsdp {

/// Connects to the store that another process serves, or begins to serve it,
/// within `deadline` and at most two seconds more. Calls of the store take as
/// long at most. `note` is told where it serves at more than `host`. Throws a
/// std::exception that says what it found.
c10::intrusive_ptr<c10d::Store>
connectTcpStore(const std::string &host, int port, bool serves,
                std::chrono::milliseconds deadline,
                const std::function<void(const std::string &)> &note = {});

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_PROCESSES_TCPSTORE_H

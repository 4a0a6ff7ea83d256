//===- SharedWork.h - Work that fails on all ranks or on none ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_SHAREDWORK_H
#define FSDP_RUNTIME_COMM_SHAREDWORK_H

#include <functional>
#include <string>
#include <vector>

namespace fsdp {

class Fabric;

/// Does `work` on each rank and returns what it gave, by rank. If it threw on
/// one, all call `fail` with that rank and what it said, so that none waits for
/// it; `fail` throws. `key`: as Fabric::exchange.
std::vector<std::string> shareWork(
    Fabric &fabric, const std::string &key,
    const std::function<std::string()> &work,
    const std::function<void(size_t rank, const std::string &message)> &fail);

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_SHAREDWORK_H

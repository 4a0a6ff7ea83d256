//===- Label.h - How errors name a transfer ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_LABEL_H
#define FSDP_RUNTIME_COMM_LABEL_H

#include "runtime/comm/Communicator.h"

#include <chrono>
#include <span>
#include <string>

namespace fsdp {

/// "rank 1: all_gather of bucket 'layers.0' in step 3".
std::string describe(int rank, const TransferLabel &label);

/// "rank 1" or "ranks 1, 2".
std::string describeRanks(std::span<const int> ranks);

/// "2.5 s".
std::string describe(std::chrono::milliseconds time);

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_LABEL_H

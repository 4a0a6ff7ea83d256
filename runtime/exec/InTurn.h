//===- InTurn.h - Several ranks' programs on one thread ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_EXEC_INTURN_H
#define FSDP_RUNTIME_EXEC_INTURN_H

#include "runtime/exec/Executor.h"

#include <functional>
#include <span>

namespace fsdp {

/// One rank's part of a run.
struct Turn {
  Executor *executor;
  uint64_t step;
  ProfileRecorder *recorder =
      nullptr; ///< of the rank, which watches the device
};

/// Issues one run of all ranks' executors, which are of one program: each goes
/// on to its next wait in turn, so that what is waited for was started by all.
/// `enter(i)` is called before each of rank i's turns.
void issueInTurn(std::span<const Turn> turns,
                 const std::function<void(size_t)> &enter);

} // namespace fsdp

#endif // FSDP_RUNTIME_EXEC_INTURN_H

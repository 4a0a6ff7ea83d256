//===- CaptureAgreement.h - All ranks run a graph, or none ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_EXEC_CAPTUREAGREEMENT_H
#define FSDP_RUNTIME_EXEC_CAPTUREAGREEMENT_H

#include "runtime/comm/Communicator.h"

#include <string>

namespace fsdp {

/// What NCCL does for a transfer depends on whether it is captured, and some of
/// it is collective: ranks that run a program as a graph cannot meet others
/// that do not. Collective over the world, once for each `program`, after each
/// rank tried to capture it; `reason` says why this one could not, and is empty
/// if it could. Returns why the program is not to run as a graph, the same on
/// all ranks ("rank 1: …"); empty: all could.
std::string agreeOnCapture(Fabric &fabric, const std::string &program,
                           const std::string &reason);

} // namespace fsdp

#endif // FSDP_RUNTIME_EXEC_CAPTUREAGREEMENT_H

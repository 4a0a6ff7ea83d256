//===- Round.h - Which processes make up this start of a run ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_PROCESSES_ROUND_H
#define FSDP_RUNTIME_COMM_PROCESSES_ROUND_H

#include "runtime/comm/processes/Store.h"

#include <chrono>
#include <string>

namespace fsdp {

/// A launcher that restarts a job serves all starts one store, in which ranks
/// of earlier ones have left what they said. No number of the launcher tells
/// the starts apart: torchrun's TORCHELASTIC_RESTART_COUNT is counted by each
/// machine's agent for itself, and not raised where another machine's failure
/// is the reason (torch/distributed/elastic/agent/server/api.py, _invoke_run).
///
/// Returns a name that the processes of this start, and no others, have agreed
/// on. Collective over the ranks. Throws fsdp::Error (RankMissing) naming who
/// did not come by the deadline.
std::string agreeOnRound(Store &store, int rank, int worldSize,
                         std::chrono::milliseconds deadline);

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_PROCESSES_ROUND_H

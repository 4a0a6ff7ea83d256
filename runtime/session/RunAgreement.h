//===- RunAgreement.h - Ranks that were started alike -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_SESSION_RUNAGREEMENT_H
#define FSDP_RUNTIME_SESSION_RUNAGREEMENT_H

#include "runtime/session/Session.h"

#include <string>
#include <vector>

namespace fsdp {

class Fabric;

/// Options of the session, as RunOptions.def says, what its caller adds
/// (SessionOptions::agreed), and the environment, as far as they change
/// results, steps or files.
std::vector<RunFact> collectFacts(SessionOptions options);

/// What files hold, whatever their paths: size, and a hash of their ends and of
/// some of what lies between. Throws fsdp::Error (FileNotReadable).
RunFact describeFiles(const std::string &name,
                      const std::vector<std::string> &paths);

/// Collective: throws fsdp::Error (RunOptionsDiffer) on all ranks, which names
/// what differs with ranks and values. `key` tells this agreement from others
/// of the run.
void agreeOnFacts(Fabric &fabric, const std::string &key,
                  const std::vector<RunFact> &facts);

} // namespace fsdp

#endif // FSDP_RUNTIME_SESSION_RUNAGREEMENT_H

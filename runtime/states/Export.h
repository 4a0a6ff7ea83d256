//===- Export.h - Unsharded weights into files ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_STATES_EXPORT_H
#define FSDP_RUNTIME_STATES_EXPORT_H

#include "plan/plan_generated.h"
#include "runtime/comm/Communicator.h"
#include "runtime/device/Arenas.h"
#include "runtime/states/ExportedStates.h"

#include <string>

namespace fsdp {

/// Whether `path` is where a folder of files is to be.
bool isExportFolder(const std::string &path);

/// Collective: rank 0 writes what is exported, but for states of which a
/// pattern of `without` means all names, to the safetensors file `path`,
/// or to several of at most `shardBytes` in that folder, with an index. Rows
/// travel in blocks, so that no rank holds a whole parameter. `key` is the same
/// on all ranks and used once. Throws fsdp::Error.
void exportWeights(const plan::PlanT &plan, const Arenas &arenas,
                   Fabric &fabric, const std::string &key,
                   const std::string &path, uint64_t shardBytes,
                   Exported what = Exported::All,
                   const std::vector<std::string> &without = {});

} // namespace fsdp

#endif // FSDP_RUNTIME_STATES_EXPORT_H

//===- RecordedTransfers.h - The transfers of a profile ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_PROFILE_RECORDEDTRANSFERS_H
#define FSDP_RUNTIME_PROFILE_RECORDEDTRANSFERS_H

#include "plan/Activities.h"
#include "runtime/profile/Collect.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace fsdp {

/// A transfer of a rank, by the places of its two records.
struct RecordedTransfer {
  size_t start, wait;
  /// On a device that listed it: of the profile's moves.
  std::optional<size_t> move = std::nullopt;
};

/// Those of which both records are there, in the order of their starts.
/// `activities` by program.
std::vector<RecordedTransfer>
findTransfers(const std::vector<std::vector<Activity>> &activities,
              const RankProfile &profile);

} // namespace fsdp

#endif // FSDP_RUNTIME_PROFILE_RECORDEDTRANSFERS_H

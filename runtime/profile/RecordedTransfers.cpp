//===- RecordedTransfers.cpp - The transfers of a profile -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/profile/RecordedTransfers.h"

#include <map>

using namespace fsdp;

std::vector<RecordedTransfer>
fsdp::findTransfers(const std::vector<std::vector<Activity>> &activities,
                    const RankProfile &profile) {
  std::vector<RecordedTransfer> transfers;
  // Futures belong to one run of a program.
  std::map<uint32_t, size_t> open;
  size_t move = 0;
  for (size_t i = 0; i < profile.records.size(); ++i) {
    const ProfileRecord &record = profile.records[i];
    if (i > 0 && record.run != profile.records[i - 1].run)
      open.clear();
    const Activity &activity =
        activities[profile.runs[record.run].program][record.instruction];
    if (activity.kind == Activity::Kind::start) {
      open[activity.future] = transfers.size();
      transfers.push_back({i, i});
      if (move < profile.moves.size() &&
          profile.moves[move].run == record.run &&
          profile.moves[move].instruction == record.instruction)
        transfers.back().move = move++;
    } else if (activity.kind == Activity::Kind::wait) {
      if (auto found = open.find(activity.future); found != open.end())
        transfers[found->second].wait = i;
    }
  }
  std::erase_if(transfers, [](const RecordedTransfer &transfer) {
    return transfer.wait == transfer.start;
  });
  return transfers;
}

//===- FakeNcclData.h - What the fake NCCL moves ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_RUNTIME_COMM_FAKENCCLDATA_H
#define FSDP_TEST_UNIT_RUNTIME_COMM_FAKENCCLDATA_H

#include "FakeNccl.h"
#include "runtime/comm/Reduce.h"

#include <deque>
#include <memory>
#include <utility>
#include <vector>

namespace fsdp::test {

/// Where the ranks of one communicator bring each other their data. Calls are
/// told apart by how many the rank has done before.
struct NcclMeeting {
  using Bytes = std::vector<std::byte>;
  struct Round {
    std::vector<Bytes> sent; ///< by rank
    int come = 0, done = 0;
  };
  std::mutex mutex;
  std::map<uint64_t, Round> rounds;
  std::map<std::pair<int, int>, std::deque<Bytes>> sent; ///< from, to
};

/// One rank of a communicator. What calls return may outlive it.
class NcclData {
public:
  /// `meeting`: null if the rank is alone, and the others' data is made up;
  /// `areAlike`: as this rank's.
  NcclData(int rank, std::shared_ptr<NcclMeeting> meeting)
      : rank(rank), meeting(std::move(meeting)) {}

  bool isAlone() const { return !meeting; }
  /// What a collective or a send is to do. `combination`: of reductions.
  NcclWork move(const NcclCall &call, const Combination &combination,
                bool areAlike);
  /// What comes from a peer; from one that is made up, what this rank sends by
  /// the call of the same place among its group's sends.
  NcclWork receive(const NcclCall &call, const NcclCall &sent, bool areAlike);

private:
  NcclWork meet(const NcclCall &call, const Combination &combination);

  const int rank;
  const std::shared_ptr<NcclMeeting> meeting;
  const std::shared_ptr<uint64_t> done = std::make_shared<uint64_t>(0);
};

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_COMM_FAKENCCLDATA_H

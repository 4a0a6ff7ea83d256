//===- Transfer.h - One transfer among threads ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_LOCAL_TRANSFER_H
#define FSDP_RUNTIME_COMM_LOCAL_TRANSFER_H

#include "runtime/comm/Communicator.h"

#include <atomic>
#include <vector>

namespace fsdp {

/// What all ranks publish about one transfer, cut into tasks that any of their
/// threads can do. Task t of lane r belongs to rank r, which takes it first.
class LocalTransfer {
public:
  LocalTransfer(int size, CollectiveKind kind, Combination combination);

  /// Publishes `rank`'s members. Returns true to the last rank, which then
  /// calls `open`. Throws fsdp::Error (CollectiveMismatch) if an earlier rank
  /// published other kinds or sizes. The caller serialises calls.
  bool publish(int rank, const Transfer &transfer);

  /// Cuts the transfer into tasks and lets them be taken.
  void open();
  bool isOpen() const { return opened.load(std::memory_order_acquire); }

  /// Does tasks, those of `rank`'s lane first, until none are left to take.
  /// Returns true if this call finished the transfer's last task.
  bool work(int rank);

  /// Ends the transfer unfinished: once this returns, no rank touches the
  /// memory that the members name.
  void cancel();

  bool isDone() const {
    return isOpen() && finished.load(std::memory_order_acquire) == total;
  }

  /// Ranks that have not published.
  std::vector<int> missing() const;

  /// Ranks that have waited; guarded by the caller.
  int waited = 0;

private:
  /// Elements of member `member` that task `begin`… of one lane covers.
  struct Piece {
    uint32_t member;
    int source; ///< rank that an all-gather copies from
    size_t begin, count;
  };
  /// The next task of a lane; on a cache line of its own.
  struct alignas(64) Lane {
    std::atomic<size_t> next{0};
  };

  void run(int lane, const Piece &piece) const;
  void reduce(int lane, const Piece &piece) const;

  const int size;
  const CollectiveKind kind;
  const Combination combination;
  int arrived = 0;
  std::vector<Members> members; ///< by rank
  std::vector<bool> present;    ///< by rank
  std::vector<Piece> pieces;    ///< of every lane; an all-reduce: of all
  std::vector<Lane> lanes;
  size_t total = 0;
  std::atomic<bool> opened{false};
  std::atomic<size_t> finished{0};
  std::atomic<bool> cancelled{false};
  std::atomic<int> working{0}; ///< threads inside `work`
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_LOCAL_TRANSFER_H

//===- CapturedTransfers.h - Where a launched graph is ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A graph is launched as one: between its launch and its end there are no
// events that the host could ask about. So it counts itself, on a stream's
// counter that the host can look at (cuda/Streams.h): once when a transfer's
// turn has come, and once when it is over. What transfers a graph has is known
// from its capture, and the counter never goes back: the host adds up what it
// launched, and so knows of which launch, and of which step, a count speaks.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_COMM_NCCL_CAPTUREDTRANSFERS_H
#define FSDP_RUNTIME_COMM_NCCL_CAPTUREDTRANSFERS_H

#include "runtime/comm/Communicator.h"
#include "runtime/device/Streams.h"

#include <chrono>
#include <deque>
#include <optional>
#include <vector>

namespace fsdp {

/// Of one communicator, whose transfers are all on one stream. Its user sees to
/// it that calls do not overlap.
class CapturedTransfers {
public:
  using Clock = std::chrono::steady_clock;

  /// Not while work is captured.
  CapturedTransfers(Streams &streams, StreamHandle stream);
  /// No graph may be running any more, nor be launched again.
  ~CapturedTransfers();
  /// Keeps the counter for ever: a graph may be running that never ends.
  void leave() { isLeft = true; }
  CapturedTransfers(const CapturedTransfers &) = delete;
  CapturedTransfers &operator=(const CapturedTransfers &) = delete;

  /// Around what is captured of one transfer, behind all that it waits for.
  /// Throw fsdp::Error (DeviceFailed).
  void begin(const TransferLabel &label);
  void end();

  /// What was captured since the last `keep` is in no graph, or
  void abandon();
  /// in the graph with the number that is returned.
  uint64_t keep();

  /// The transfers of a graph, in their order.
  const std::vector<TransferLabel> &transfers(uint64_t graph) const {
    return graphs.at(graph);
  }
  /// The graph is about to be launched for `step`, behind all that was launched
  /// before. `position` is that of its first transfer, among all of the
  /// communicator's.
  void launch(uint64_t graph, uint64_t step, uint64_t position);

  struct Transfer {
    TransferLabel label;
    uint64_t position;
    /// When it was first seen that nothing of this rank is in its way; empty:
    /// something is.
    std::optional<Clock::time_point> began;
  };
  /// The first transfer of all launches that is not over yet. To be asked again
  /// and again.
  std::optional<Transfer> current(Clock::time_point now);

private:
  struct Launch {
    uint64_t graph, step, position;
    uint64_t count; ///< that the counter has when it begins
  };

  Streams &streams;
  const StreamHandle stream;
  const CounterHandle counter;
  std::vector<TransferLabel> captured; ///< since the last `keep`
  std::vector<std::vector<TransferLabel>> graphs;
  std::deque<Launch> launches; ///< that were not seen to be over
  uint64_t launched = 0;       ///< the count behind all of them
  uint64_t seen = 0;           ///< the count of `began`
  Clock::time_point began;
  bool isLeft = false;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_NCCL_CAPTUREDTRANSFERS_H

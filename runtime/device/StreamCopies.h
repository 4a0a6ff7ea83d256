//===- StreamCopies.h - Copies between a device and the host ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DEVICE_STREAMCOPIES_H
#define FSDP_RUNTIME_DEVICE_STREAMCOPIES_H

#include "runtime/device/Copies.h"
#include "runtime/device/Streams.h"

#include <chrono>
#include <memory>
#include <vector>

namespace fsdp {

/// On a stream for each direction, beside kernels and transfers. From and to
/// pageable memory the host stands still meanwhile.
class StreamCopies final : public Copies {
public:
  /// `deadline` is how long the host waits for a copy.
  StreamCopies(std::shared_ptr<Streams> streams,
               std::chrono::milliseconds deadline);
  ~StreamCopies() override;
  StreamCopies(const StreamCopies &) = delete;
  StreamCopies &operator=(const StreamCopies &) = delete;

  Slot reserve(plan::Stream stream) override;
  void start(Slot slot, std::span<const Part> parts) override;
  void wait(Slot slot) override;
  void join() override;
  void noteLaunch() override;

private:
  struct Place {
    bool isDownload;
    EventHandle done;
    /// Of a copy that is captured: nobody can ask about the event, and `done`
    /// may still stand for an earlier copy that was not.
    EventHandle captured;
    bool isCaptured = false; ///< the copy that was started last
    uint64_t number = 0;     ///< of the last one that was not, from 1
  };
  /// What was waited for in one direction.
  struct Direction {
    explicit Direction(StreamHandle stream) : stream(stream) {}
    const StreamHandle stream;
    uint64_t started = 0; ///< copies
    /// Of those that were waited for and are not known to be over by the host,
    /// the one that was started last: behind it all others are over, too.
    EventHandle last = nullptr;
    uint64_t lastNumber = 0;
  };

  Direction &directionOf(const Place &place) {
    return place.isDownload ? download : upload;
  }
  void synchronize(EventHandle event);

  const std::shared_ptr<Streams> streams;
  const std::chrono::milliseconds deadline;
  Direction upload, download;
  const EventHandle issued; ///< all that was put on the compute stream
  const EventHandle launch; ///< the last graph, on the compute stream
  bool hasCaptured = false; ///< a graph may have some of the copies
  bool isLaunched = false;  ///< and is not known to be over
  std::vector<Place> slots;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DEVICE_STREAMCOPIES_H

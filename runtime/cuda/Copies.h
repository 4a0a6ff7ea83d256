//===- Copies.h - Copies between a GPU and the host -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_CUDA_COPIES_H
#define FSDP_RUNTIME_CUDA_COPIES_H

#include "runtime/device/Copies.h"
#include "runtime/device/Streams.h"

#include <chrono>
#include <memory>
#include <vector>

namespace fsdp {

/// On a stream for each direction, beside kernels and transfers. From and to
/// pageable memory the host stands still meanwhile.
class CudaCopies final : public Copies {
public:
  /// `deadline` is how long the host waits for a copy.
  CudaCopies(std::shared_ptr<Streams> streams,
             std::chrono::milliseconds deadline);
  ~CudaCopies() override;
  CudaCopies(const CudaCopies &) = delete;
  CudaCopies &operator=(const CudaCopies &) = delete;

  Slot reserve(plan::Stream stream) override;
  void start(Slot slot, std::span<const Part> parts) override;
  void wait(Slot slot) override;
  void join() override;

private:
  struct Place {
    bool isDownload;
    EventHandle done;
  };

  const std::shared_ptr<Streams> streams;
  const std::chrono::milliseconds deadline;
  const StreamHandle upload, download;
  const EventHandle issued; ///< all that was put on the compute stream
  std::vector<Place> slots;
  /// Waited for, and not known to be over by the host: the last of each
  /// direction, behind which all others of it are over, too.
  EventHandle lastUpload = nullptr, lastDownload = nullptr;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_CUDA_COPIES_H

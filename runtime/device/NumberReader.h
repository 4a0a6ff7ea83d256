//===- NumberReader.h - Numbers of a device for the host --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DEVICE_NUMBERREADER_H
#define FSDP_RUNTIME_DEVICE_NUMBERREADER_H

#include "runtime/device/StreamMemory.h"

#include <memory>
#include <span>
#include <vector>

namespace at {
class Tensor;
}

namespace fsdp {

/// A copy into pinned memory is behind the step like a kernel; the host waits
/// once, for all of them.
class NumberReader {
public:
  /// `pinned`, which the device writes on its own, and `device` outlive it.
  NumberReader(std::shared_ptr<Streams> streams, Memory &pinned,
               StreamMemory &device);
  ~NumberReader();
  NumberReader(const NumberReader &) = delete;
  NumberReader &operator=(const NumberReader &) = delete;

  /// Of tensors of one element on the device, of any real type.
  std::vector<double> read(std::span<const at::Tensor> tensors);

private:
  void reserve(uint64_t bytes);

  const std::shared_ptr<Streams> streams;
  Memory &pinned;
  StreamMemory &device;
  char *buffer = nullptr; ///< pinned
  uint64_t bufferBytes = 0;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DEVICE_NUMBERREADER_H

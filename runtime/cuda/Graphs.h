//===- Graphs.h - CUDA graphs -----------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LibTorch's own class for graphs is not used: it records the state of its
// generator, from which no plan draws, and a capture that fails leaves that in
// the middle, so that no other graph of the process can be launched any more.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_CUDA_GRAPHS_H
#define FSDP_RUNTIME_CUDA_GRAPHS_H

#include "runtime/device/GraphRecorder.h"

namespace fsdp {

/// What kernels ask of LibTorch's allocators in a capture is the graph's as
/// long as it lives. Other threads may use the device meanwhile.
class CudaGraphRecorder final : public GraphRecorder {
public:
  explicit CudaGraphRecorder(int device) : device(device) {}

  void enter(StreamHandle stream) override;
  std::unique_ptr<WorkGraph> record(StreamHandle stream,
                                    const std::function<void()> &put) override;
  bool recovers(const std::string &reason, StreamHandle stream) override;

private:
  const int device;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_CUDA_GRAPHS_H

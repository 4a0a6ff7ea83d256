//===- DeviceOptions.h - How a rank uses its device -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DEVICE_DEVICEOPTIONS_H
#define FSDP_RUNTIME_DEVICE_DEVICEOPTIONS_H

#include <array>
#include <chrono>
#include <memory>
#include <string_view>
#include <utility>

namespace fsdp {

class Streams;

/// Whether a GPU's steps are captured and launched as one.
enum class CudaGraph {
  automatic, ///< where they can be
  on,        ///< what cannot be is an error
  off
};
constexpr std::array<std::pair<std::string_view, CudaGraph>, 3>
namesOf(CudaGraph) {
  return {{{"auto", CudaGraph::automatic},
           {"on", CudaGraph::on},
           {"off", CudaGraph::off}}};
}

struct DeviceOptions {
  /// Of an artifact for a GPU: the rank's streams there, those that the fabric
  /// was connected with.
  std::shared_ptr<Streams> streams;
  CudaGraph cudaGraph = CudaGraph::automatic;
  /// Bytes a second that copies between device and host move in each direction
  /// at most, where the host stands for the device; 0: as many as it can.
  double copyBandwidth = 0;
  /// Whether a GPU's calls look at indices before kernels use them.
  bool checksIndices = false;
  /// How long a rank waits for another one where they share a GPU.
  std::chrono::milliseconds deadline = std::chrono::minutes(10);
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DEVICE_DEVICEOPTIONS_H

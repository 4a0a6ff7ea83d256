//===- Target.h - The device that a program is captured for -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Capture runs on tensors without data, so what LibTorch decides by device,
// such as which attention kernel to use, is decided by this instead. No such
// device needs to be there.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_REQUEST_TARGET_H
#define FSDP_IR_CAPTURE_REQUEST_TARGET_H

#include <string>

namespace fsdp {

struct Target {
  enum class Device { Cpu, Cuda };
  Device device = Device::Cpu;
  /// Compute capability of a CUDA device as 10 * major + minor: 90 is that of
  /// an H100 or H200.
  int capability = 90;
  /// No kernel is chosen there whose bits differ from run to run.
  bool isDeterministic = false;

  int getMajor() const { return capability / 10; }
  bool isBetween(int lowest, int highest) const {
    return capability >= lowest && capability <= highest;
  }

  /// "cpu" or "cuda:sm_90": as a module's `fsdp.device` and an artifact say it.
  std::string describe() const {
    return device == Device::Cpu ? "cpu"
                                 : "cuda:sm_" + std::to_string(capability);
  }
};

} // namespace fsdp

#endif // FSDP_IR_CAPTURE_REQUEST_TARGET_H

//===- FarWitness.h - Instructions as a device has them ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_RUNTIME_CUDA_FARWITNESS_H
#define FSDP_TEST_UNIT_RUNTIME_CUDA_FARWITNESS_H

#include "SimulatedStreams.h"
#include "runtime/exec/Instruction.h"

#include <memory>
#include <string>

namespace fsdp::test {

/// Puts what computes on the stream that the thread has entered, where it
/// happens in its turn; what the host computes happens at once. Both say what
/// they read and write, as the plan has it (plan/Instructions.h). Kernels of
/// our own go through the driver, which knows that itself (FakeDriver.h).
/// Starts of transfers and copies and the waits for them stay as they are, and
/// are named.
class FarWitness final : public Witness {
public:
  explicit FarWitness(std::shared_ptr<SimulatedDevice> device)
      : device(std::move(device)) {}

  std::unique_ptr<Instruction>
  stand(const Preparation &preparation, const plan::InstructionT &instruction,
        bool isBeside, std::string what,
        std::unique_ptr<Instruction> prepared) override;

private:
  const std::shared_ptr<SimulatedDevice> device;
};

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_CUDA_FARWITNESS_H

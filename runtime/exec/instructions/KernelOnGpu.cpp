//===- KernelOnGpu.cpp - Programs of kernels on a device's stream ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/instructions/KernelOnGpu.h"

#include <ATen/ops/empty.h>

using namespace fsdp;

namespace {

/// Put there in rehearsals, too: the driver makes code ready at its first
/// launch, for which it may wait for the device.
class LaunchedKernel final : public Instruction {
public:
  LaunchedKernel(GpuKernelCall call, StreamHandle stream)
      : call(std::move(call)), stream(stream) {}
  void run(StepState &) override { call.run(nullptr, stream); }
  void rehearse(StepState &state) override { run(state); }

private:
  const GpuKernelCall call;
  const StreamHandle stream;
};

} // namespace

std::unique_ptr<Instruction>
fsdp::makeKernelOnGpu(Preparation &p, GpuKernels &kernels,
                      const plan::KernelT &op, std::vector<void *> operands) {
  const plan::KernelProgramT &program = *p.plan.kernels[op.program];
  GpuKernelCall call(kernels.load(program, GivenCode(p.plan, op.program)),
                     program, std::move(operands));
  StreamHandle stream = p.device.computeStream();
  if (call.isEmpty())
    return nullptr;
  if (call.scratchBytes() == 0)
    return std::make_unique<LaunchedKernel>(std::move(call), stream);
  at::TensorOptions options =
      at::TensorOptions().dtype(at::kByte).device(p.device.torch());
  return makeComputation(p.memory, [call = std::move(call), stream, options] {
    at::Tensor scratch =
        at::empty({static_cast<int64_t>(call.scratchBytes())}, options);
    call.run(static_cast<char *>(scratch.mutable_data_ptr()), stream);
  });
}

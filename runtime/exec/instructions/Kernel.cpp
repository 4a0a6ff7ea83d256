//===- Kernel.cpp - Programs of kernels -----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "kernels/Loader.h"
#include "plan/Kernels.h"
#include "runtime/exec/Instruction.h"
#include "runtime/exec/instructions/KernelOnGpu.h"
#include "support/Error.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>

using namespace fsdp;
using plan::KernelProgramT;

namespace {

/// Elements that a thread takes at least.
constexpr int64_t kKernelPiece = int64_t{1} << 15;

/// A kernel and the addresses that it works on.
struct KernelCall {
  std::shared_ptr<const LoadedKernel> kernel;
  std::vector<void *> operands;
  int64_t count; ///< of rows, or of columns if the program is flat
  int64_t grain; ///< of these, that a thread takes at least

  void run() const {
    at::parallel_for(0, count, grain, [&](int64_t begin, int64_t end) {
      kernel->run(operands.data(), begin, end);
    });
  }
};

/// A sum over rows that a kernel leaves.
struct RowSum {
  size_t operand;
  at::Tensor output;
};

/// `sums` of the parts' rows, in order, rounded to the type of `output`.
void combine(const float *parts, int64_t columns, const at::Tensor &output) {
  at::parallel_for(0, columns, kKernelPiece / kKernelParts,
                   [&](int64_t begin, int64_t end) {
                     for (int64_t c = begin; c < end; ++c) {
                       float sum = parts[c];
                       for (int64_t part = 1; part < kKernelParts; ++part)
                         sum += parts[part * columns + c];
                       switch (output.scalar_type()) {
                       case c10::ScalarType::BFloat16:
                         output.mutable_data_ptr<c10::BFloat16>()[c] = sum;
                         break;
                       case c10::ScalarType::Half:
                         output.mutable_data_ptr<c10::Half>()[c] = sum;
                         break;
                       default:
                         output.mutable_data_ptr<float>()[c] = sum;
                       }
                     }
                   });
}

/// Runs a kernel that sums over rows: its parts, each with a row of sums.
class SummingKernel {
public:
  SummingKernel(KernelCall call, std::vector<RowSum> sums)
      : call(std::move(call)), sums(std::move(sums)) {}

  void run() {
    int64_t floats = 0;
    for (const RowSum &sum : sums)
      floats += kKernelParts * sum.output.numel();
    at::Tensor scratch = at::empty({floats}, at::kFloat);
    at::parallel_for(0, kKernelParts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part)
        runPart(part, scratch.mutable_data_ptr<float>());
    });
    const float *parts = scratch.mutable_data_ptr<float>();
    for (const RowSum &sum : sums) {
      combine(parts, sum.output.numel(), sum.output);
      parts += kKernelParts * sum.output.numel();
    }
  }

private:
  void runPart(int64_t part, float *parts) const {
    std::vector<void *> operands = call.operands;
    for (const RowSum &sum : sums) {
      int64_t columns = sum.output.numel();
      float *own = parts + part * columns;
      std::fill_n(own, columns, 0.0f);
      operands[sum.operand] = own;
      parts += kKernelParts * columns;
    }
    int64_t each = (call.count + kKernelParts - 1) / kKernelParts;
    int64_t begin = std::min(call.count, part * each);
    int64_t end = std::min(call.count, begin + each);
    if (begin < end)
      call.kernel->run(operands.data(), begin, end);
  }

  KernelCall call;
  std::vector<RowSum> sums;
};

} // namespace

std::unique_ptr<Instruction> fsdp::prepare(Preparation &p,
                                           const plan::KernelT &op) {
  const KernelProgramT &program = *p.plan.kernels[op.program];
  std::vector<void *> operands;
  std::vector<RowSum> sums;
  size_t beside = 0;
  auto input = op.inputs.begin(), output = op.outputs.begin();
  for (size_t i = 0; i < program.operands.size(); ++i) {
    bool isWritten = program.operands[i]->written != -1;
    uint32_t index = isWritten ? *output++ : *input++;
    const at::Tensor &value = p.values[index];
    operands.push_back(isWritten ? value.mutable_data_ptr()
                                 : const_cast<void *>(value.const_data_ptr()));
    if (takesRowSum(program, i))
      sums.push_back({i, value});
    beside += p.isBeside(index);
  }
  if (!p.device.isHost() && beside == 0) {
    if (GpuKernels *kernels = p.device.kernels())
      return makeKernelOnGpu(p, *kernels, op, std::move(operands));
    throw Error(ErrorId::RuntimeUnsupported,
                "kernels of fsdp_config.kernels are made for no device of this "
                "kind; compile the model with kernels: off");
  }
  if (!p.device.isHost() && beside != operands.size())
    throw Error(ErrorId::RuntimeUnsupported,
                "kernel '" + program.name +
                    "' has operands on the device and others on the host; "
                    "compile the model with kernels: off");
  KernelCall call{loadKernel(program, GivenCode(p.plan, op.program)),
                  std::move(operands), 0, 1};
  auto columns = static_cast<int64_t>(columnsOf(program));
  bool takesColumns = isFlat(program);
  call.count = takesColumns ? columns : rowsOf(program);
  call.grain = takesColumns ? kKernelPiece
                            : std::max<int64_t>(1, kKernelPiece / columns);
  if (call.count == 0 && sums.empty())
    return nullptr;
  // Before the first step as well: operators behind it may look up by what it
  // leaves.
  if (sums.empty())
    return makeComputation(p.memory, [call = std::move(call)] { call.run(); });
  return makeComputation(
      p.memory,
      [kernel = SummingKernel(std::move(call), std::move(sums))]() mutable {
        kernel.run();
      });
}

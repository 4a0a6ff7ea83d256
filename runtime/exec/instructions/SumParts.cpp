//===- SumParts.cpp - Sums of what other ranks gave -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/Instruction.h"

#include "plan/DType.h"
#include "runtime/comm/Reduce.h"
#include "runtime/exec/Device.h"
#include "support/Error.h"

#include <ATen/Parallel.h>

using namespace fsdp;

/// Elements that a thread takes at a time.
static constexpr int64_t kSummedPiece = int64_t{1} << 16;

std::unique_ptr<Instruction> fsdp::prepare(Preparation &p,
                                           const plan::SumPartsT &op) {
  if (!p.deviceOf(op.output).is_cpu()) {
    if (auto own = p.device.prepareSumParts(p, op))
      return own;
    throw Error(ErrorId::RuntimeUnsupported,
                "nothing sums on this device what travels in a narrow type "
                "(reduce_wire_dtype), and the artifact asks for it");
  }
  // As back ends that sum themselves do, for the same bits.
  return makeComputation(
      p.memory, [parts = p.values[op.input], to = p.values[op.output],
                 count = op.parts, dtype = p.program.values[op.input]->dtype,
                 how = Combination(plan::Reduction::sum, op.pre, op.post)] {
        const auto *from =
            static_cast<const std::byte *>(parts.const_data_ptr());
        auto *sums = to.mutable_data_ptr<float>();
        size_t unit = dtypeBytes(dtype);
        at::parallel_for(
            0, to.numel(), kSummedPiece, [&](int64_t begin, int64_t end) {
              std::vector<const void *> rows(count);
              for (size_t part = 0; part < count; ++part)
                rows[part] = from + (part * static_cast<size_t>(to.numel()) +
                                     static_cast<size_t>(begin)) *
                                        unit;
              void *out = sums + begin;
              reduceRows(rows, {&out, 1}, static_cast<size_t>(end - begin),
                         dtype, plan::DType::f32, how);
            });
      });
}

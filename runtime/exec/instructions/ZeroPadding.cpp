//===- ZeroPadding.cpp - Zeros behind a tensor's rows ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/Instruction.h"

#include "plan/Shape.h"
#include "runtime/device/Tensors.h"

#include <cstring>

using namespace fsdp;

std::unique_ptr<Instruction> fsdp::prepare(Preparation &p,
                                           const plan::ZeroPaddingT &op) {
  const at::Tensor &value = p.values[op.value];
  int64_t size = p.plan.groups[op.group]->size;
  int64_t rows = value.size(0);
  int64_t padding = shardRows(rows, size) * size - rows;
  if (padding == 0 || rows == 0)
    return nullptr;
  size_t rowBytes = value.nbytes() / static_cast<size_t>(rows);
  char *begin = static_cast<char *>(value.mutable_data_ptr()) + value.nbytes();
  size_t bytes = static_cast<size_t>(padding) * rowBytes;
  if (p.device.isHost())
    return makeInstruction(
        [begin, bytes](StepState &) { std::memset(begin, 0, bytes); });
  // Rehearsed: a device loads the kernel before transfers keep it busy.
  return makeComputation(
      p.memory,
      [tensor = bytesAt(begin, bytes, p.device.torch())] { tensor.zero_(); });
}

//===- IndexGuard.cpp - Indices are looked at before they are used --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/IndexGuard.h"

#include "support/Error.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <limits>

using namespace fsdp;

IndexGuard::IndexGuard(const plan::PlanT &plan, const plan::ProgramT &program,
                       const plan::CallT &call,
                       const std::vector<at::Tensor> &values) {
  const plan::OperatorT &op = *plan.operators[call.op];
  std::string name =
      op.overload.empty() ? op.name : op.name + "." + op.overload;
  for (const IndexOperand &range :
       indexOperands(name, CallOperands(program, call))) {
    auto value = static_cast<size_t>(call.args[range.argument]->values[0]);
    if (values[value].device().is_cpu())
      guarded.push_back({range, values[value]});
  }
}

/// Elements lie without gaps, in whatever order.
template <typename T>
static bool isInRange(const T *elements, int64_t count,
                      const IndexOperand &range) {
  std::atomic<bool> holds = true;
  at::parallel_for(0, count, 1 << 16, [&](int64_t begin, int64_t end) {
    T least = std::numeric_limits<T>::max();
    T greatest = std::numeric_limits<T>::min();
    for (int64_t i = begin; i < end; ++i) {
      least = std::min(least, elements[i]);
      greatest = std::max(greatest, elements[i]);
    }
    if (least >= range.least && greatest <= range.greatest)
      return;
    // One of them may be the one that stands for nothing.
    for (int64_t i = begin; i < end; ++i)
      if ((elements[i] < range.least || elements[i] > range.greatest) &&
          elements[i] != range.other)
        holds = false;
  });
  return holds;
}

void IndexGuard::check() const {
  for (const auto &[range, tensor] : guarded) {
    int64_t count = tensor.numel();
    bool holds = count == 0 ||
                 (tensor.scalar_type() == c10::kLong
                      ? isInRange(tensor.data_ptr<int64_t>(), count, range)
                      : isInRange(tensor.data_ptr<int32_t>(), count, range));
    if (!holds)
      throw Error(ErrorId::KernelFailed,
                  "argument " + std::to_string(range.argument) +
                      " has an index out of range; expected " +
                      std::to_string(range.least) + " to " +
                      std::to_string(range.greatest));
  }
}

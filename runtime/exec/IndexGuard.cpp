//===- IndexGuard.cpp - Indices are looked at before they are used --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/IndexGuard.h"

#include "support/Error.h"

#include <ATen/Parallel.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/ne.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>

using namespace fsdp;

IndexGuard::IndexGuard(const plan::PlanT &plan, const plan::ProgramT &program,
                       const plan::CallT &call,
                       const std::vector<at::Tensor> &values,
                       bool looksOnDevice) {
  const plan::OperatorT &op = *plan.operators[call.op];
  std::string name =
      op.overload.empty() ? op.name : op.name + "." + op.overload;
  CallOperands operands(program, call);
  auto guard = [&](const IndexOperand &range, bool isOnDevice) {
    auto value =
        static_cast<size_t>(call.args[range.argument]->values[range.element]);
    if (values[value].device().is_cpu() != isOnDevice)
      guarded.push_back({range, values[value]});
  };
  for (const IndexOperand &range : indexOperands(name, operands)) {
    guard(range, /*isOnDevice=*/false);
    if (looksOnDevice)
      guard(range, /*isOnDevice=*/true);
  }
  if (looksOnDevice)
    for (const IndexOperand &range : checkedIndexOperands(name, operands))
      guard(range, /*isOnDevice=*/true);
}

bool IndexGuard::waits() const {
  return std::ranges::any_of(guarded, [](const Guarded &each) {
    return !each.tensor.device().is_cpu();
  });
}

std::string fsdp::hintAtIndices(std::string message) {
  for (const char *sign : {"device-side assert", "illegal memory access"})
    if (message.find(sign) != std::string::npos)
      return std::move(message) +
             "; an index may be out of range: run with --debug-index, which "
             "names the operator";
  return message;
}

/// The same, by kernels.
static bool isInRangeOnDevice(const at::Tensor &tensor,
                              const IndexOperand &range) {
  at::Tensor isOut = at::logical_or(at::lt(tensor, range.least),
                                    at::gt(tensor, range.greatest));
  if (range.other)
    isOut = at::logical_and(isOut, at::ne(tensor, *range.other));
  return !isOut.any().item<bool>();
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
                 (!tensor.device().is_cpu() ? isInRangeOnDevice(tensor, range)
                  : tensor.scalar_type() == c10::kLong
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

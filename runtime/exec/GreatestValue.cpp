//===- GreatestValue.cpp - The greatest absolute value --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/GreatestValue.h"

#include "support/Vectorized.h"

#include <ATen/Parallel.h>

#include <atomic>
#include <bit>
#include <cmath>

using namespace fsdp;

/// Elements that a thread takes at a time.
static constexpr int64_t kPiece = int64_t{1} << 16;

/// Numbers without a sign are in the order of their bits, NaNs behind infinity.
FSDP_VECTORIZED
int32_t findGreatestBits(const float *values, size_t count) {
  int32_t greatest = 0;
  for (size_t i = 0; i < count; ++i) {
    int32_t bits = std::bit_cast<int32_t>(values[i]) & 0x7FFFFFFF;
    greatest = bits > greatest ? bits : greatest;
  }
  return greatest;
}

float fsdp::findGreatest(std::span<const float> values) {
  std::atomic<int32_t> greatest = 0;
  at::parallel_for(
      0, static_cast<int64_t>(values.size()), kPiece,
      [&](int64_t begin, int64_t end) {
        int32_t own = findGreatestBits(values.data() + begin,
                                       static_cast<size_t>(end - begin));
        int32_t known = greatest;
        while (known < own && !greatest.compare_exchange_weak(known, own)) {
        }
      });
  return std::bit_cast<float>(greatest.load());
}

std::unique_ptr<Instruction>
fsdp::prepareGreatest(const Preparation &p, const plan::CallT &call,
                      const plan::OperatorT &name,
                      const std::vector<c10::IValue> &arguments) {
  if (name.name != "aten::linalg_vector_norm" || !name.overload.empty())
    return nullptr;
  // self, ord, dim, keepdim, dtype
  const at::Tensor &tensor = arguments[0].toTensor();
  bool isWhole = arguments[2].isNone() && arguments[4].isNone() &&
                 call.results.size() == 1 && call.results[0] >= 0;
  double order = arguments[1].toScalar().toDouble();
  if (!isWhole || !std::isinf(order) || order < 0 || tensor.numel() == 0 ||
      !tensor.device().is_cpu() || tensor.scalar_type() != at::kFloat ||
      !tensor.is_non_overlapping_and_dense())
    return nullptr;
  const at::Tensor &result = p.values[static_cast<size_t>(call.results[0])];
  return makeComputation(p.memory, [tensor, result] {
    *result.mutable_data_ptr<float>() = findGreatest(
        {tensor.data_ptr<float>(), static_cast<size_t>(tensor.numel())});
  });
}

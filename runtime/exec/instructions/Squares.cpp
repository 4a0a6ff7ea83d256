//===- Squares.cpp - Norms that do not depend on the cut ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/Squares.h"

#include "runtime/exec/Instruction.h"
#include "support/Error.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <mutex>

using namespace fsdp;

namespace {

/// Elements that a thread takes at a time.
constexpr int64_t kSquaresPiece = int64_t{1} << 16;

template <typename T>
void addHalves(const T *values, int64_t count, SumDigits &digits) {
  alignas(64) float wide[1024];
  for (int64_t begin = 0; begin < count; begin += 1024) {
    int64_t number = std::min<int64_t>(1024, count - begin);
    std::copy_n(values + begin, number, wide);
    addSquares(wide, static_cast<size_t>(number), digits);
  }
}

/// Of elements that lie side by side.
void addPiece(const at::Tensor &tensor, int64_t begin, int64_t count,
              SumDigits &digits) {
  if (tensor.scalar_type() == c10::ScalarType::Float)
    addSquares(tensor.data_ptr<float>() + begin, static_cast<size_t>(count),
               digits);
  else if (tensor.scalar_type() == c10::ScalarType::BFloat16)
    addHalves(tensor.data_ptr<c10::BFloat16>() + begin, count, digits);
  else
    addHalves(tensor.data_ptr<c10::Half>() + begin, count, digits);
}

std::vector<at::Tensor> listValues(const Preparation &p,
                                   const std::vector<uint32_t> &values) {
  std::vector<at::Tensor> tensors;
  for (uint32_t value : values)
    tensors.push_back(p.values[value]);
  return tensors;
}

void refuseDevice(const Preparation &p, uint32_t value) {
  if (!p.deviceOf(value).is_cpu())
    throw Error(ErrorId::RuntimeUnsupported,
                "exact sums of squares (fsdp_config.grains) are computed on "
                "the host alone, and the artifact has them on a GPU");
}

} // namespace

void fsdp::addSquares(const at::Tensor &tensor, SumDigits &digits) {
  // The order of elements does not matter, only that none is left out.
  at::Tensor dense =
      tensor.is_non_overlapping_and_dense() ? tensor : tensor.contiguous();
  std::mutex mutex;
  at::parallel_for(0, dense.numel(), kSquaresPiece,
                   [&](int64_t begin, int64_t end) {
                     SumDigits own{};
                     addPiece(dense, begin, end - begin, own);
                     std::lock_guard lock(mutex);
                     for (size_t i = 0; i < own.size(); ++i)
                       digits[i] += own[i];
                   });
  carry(digits);
}

std::unique_ptr<Instruction> fsdp::prepare(Preparation &p,
                                           const plan::SquareSumT &op) {
  refuseDevice(p, op.output);
  return makeComputation(
      p.memory, [tensors = listValues(p, op.inputs),
                 output = p.values[op.output].mutable_data_ptr<int64_t>()] {
        SumDigits digits{};
        for (const at::Tensor &tensor : tensors)
          addSquares(tensor, digits);
        std::ranges::copy(digits, output);
      });
}

std::unique_ptr<Instruction> fsdp::prepare(Preparation &p,
                                           const plan::SquareRootT &op) {
  refuseDevice(p, op.output);
  return makeComputation(
      p.memory, [tensors = listValues(p, op.inputs),
                 output = p.values[op.output].mutable_data_ptr<float>()] {
        SumDigits digits{};
        for (const at::Tensor &tensor : tensors)
          for (size_t i = 0; i < digits.size(); ++i)
            digits[i] += tensor.data_ptr<int64_t>()[i];
        *output = rootOf(digits);
      });
}

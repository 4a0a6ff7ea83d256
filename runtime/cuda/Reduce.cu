//===- Reduce.cu - Combine rows of several ranks on a device --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Launches.cuh"

#include "runtime/support/Error.h"

using namespace fsdp;
using plan::DType;
using plan::Reduction;

namespace {

template <typename T>
struct Rows {
  const T *sources[kMaxReducedRows];
  T *outputs[kMaxReducedRows];
  int sourceCount, outputCount;
};

/// The order and the roundings of Reduce.cpp.
template <typename T, typename Accumulator>
__global__ void combine(Rows<T> rows, size_t elements, bool isMax, bool divides,
                        Accumulator pre, bool dividesResult, Accumulator post) {
  size_t stride = size_t(gridDim.x) * blockDim.x;
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < elements;
       i += stride) {
    auto sum = static_cast<Accumulator>(rows.sources[0][i]);
    if (divides)
      sum = sum / pre;
    for (int row = 1; row < rows.sourceCount; ++row) {
      auto value = static_cast<Accumulator>(rows.sources[row][i]);
      if (isMax) {
        // A NaN wins, as in torch.maximum.
        sum = value > sum || value != value ? value : sum;
      } else {
        if (divides)
          value = value / pre;
        sum = sum + value;
      }
    }
    if (dividesResult)
      sum = sum / post;
    auto result = static_cast<T>(sum);
    for (int row = 0; row < rows.outputCount; ++row)
      rows.outputs[row][i] = result;
  }
}

template <typename T, typename Accumulator = T>
void launch(std::span<const void *const> sources,
            std::span<void *const> outputs, size_t elements,
            const Combination &combination, StreamHandle stream) {
  Rows<T> rows;
  rows.sourceCount = static_cast<int>(sources.size());
  rows.outputCount = static_cast<int>(outputs.size());
  for (size_t i = 0; i < sources.size(); ++i)
    rows.sources[i] = static_cast<const T *>(sources[i]);
  for (size_t i = 0; i < outputs.size(); ++i)
    rows.outputs[i] = static_cast<T *>(outputs[i]);
  bool isMax = combination.reduction == Reduction::max;
  double post = combination.reduction == Reduction::avg
                    ? static_cast<double>(sources.size())
                    : combination.post;
  combine<T, Accumulator><<<blocksFor(elements), kThreads, 0, stream>>>(
      rows, elements, isMax, combination.pre != 1 && !isMax,
      static_cast<Accumulator>(combination.pre), post != 1,
      static_cast<Accumulator>(post));
  checkLaunch("the kernel of a reduction");
}

} // namespace

void fsdp::reduceOnDevice(std::span<const void *const> sources,
                          std::span<void *const> outputs, size_t elements,
                          DType dtype, const Combination &combination,
                          StreamHandle stream) {
  if (elements == 0)
    return;
  if (sources.size() > kMaxReducedRows || outputs.size() > kMaxReducedRows)
    throw Error(ErrorId::RuntimeUnsupported,
                "expected at most " + std::to_string(kMaxReducedRows) +
                    " ranks on one GPU, found " +
                    std::to_string(sources.size()));
  bool isMax = combination.reduction == Reduction::max;
  auto run = [&]<typename T, typename Accumulator>(T, Accumulator,
                                                   size_t count) {
    launch<T, Accumulator>(sources, outputs, count, combination, stream);
  };
  switch (dtype) {
  case DType::f32:
    return run(float(), float(), elements);
  case DType::f64:
    return run(double(), double(), elements);
  case DType::f16:
    return run(__half(), float(), elements);
  case DType::bf16:
    return run(__nv_bfloat16(), float(), elements);
  case DType::c64:
    return run(float(), float(), 2 * elements);
  case DType::c128:
    return run(double(), double(), 2 * elements);
  // Sums of integers wrap, hence unsigned.
  case DType::i64:
    if (isMax)
      return run(int64_t(), int64_t(), elements);
    [[fallthrough]];
  case DType::u64:
    return run(uint64_t(), uint64_t(), elements);
  case DType::i32:
    if (isMax)
      return run(int32_t(), int32_t(), elements);
    [[fallthrough]];
  case DType::u32:
    return run(uint32_t(), uint32_t(), elements);
  case DType::i16:
    return run(int16_t(), int16_t(), elements);
  case DType::u16:
    return run(uint16_t(), uint16_t(), elements);
  case DType::i8:
    return run(int8_t(), int8_t(), elements);
  case DType::u8:
  case DType::bool_:
    return run(uint8_t(), uint8_t(), elements);
  case DType::f8e4m3fn:
  case DType::f8e5m2:
    return checkReduction(dtype, combination.reduction);
  }
}

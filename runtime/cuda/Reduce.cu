//===- Reduce.cu - Combine rows of several ranks on a device --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Launches.cuh"

#include "support/Error.h"

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

/// Numbers that are read and written at once.
template <typename T, int count>
struct alignas(count * sizeof(T)) RowPack {
  T at[count];
};

template <typename Accumulator>
struct Arithmetic {
  bool isMax, divides, dividesResult;
  Accumulator pre, post;
};

/// The order and the roundings of Reduce.cpp, for a pack of each row.
template <typename T, typename Accumulator, int count>
__device__ void combinePack(const Rows<T> &rows, size_t pack,
                            const Arithmetic<Accumulator> &how) {
  using Packed = RowPack<T, count>;
  Packed values = reinterpret_cast<const Packed *>(rows.sources[0])[pack];
  Accumulator sums[count];
#pragma unroll
  for (int i = 0; i < count; ++i) {
    sums[i] = static_cast<Accumulator>(values.at[i]);
    if (how.divides)
      sums[i] = sums[i] / how.pre;
  }
  for (int row = 1; row < rows.sourceCount; ++row) {
    values = reinterpret_cast<const Packed *>(rows.sources[row])[pack];
#pragma unroll
    for (int i = 0; i < count; ++i) {
      auto value = static_cast<Accumulator>(values.at[i]);
      if (how.isMax) {
        // A NaN wins, as in torch.maximum.
        sums[i] = value > sums[i] || value != value ? value : sums[i];
      } else {
        if (how.divides)
          value = value / how.pre;
        sums[i] = sums[i] + value;
      }
    }
  }
#pragma unroll
  for (int i = 0; i < count; ++i) {
    if (how.dividesResult)
      sums[i] = sums[i] / how.post;
    values.at[i] = static_cast<T>(sums[i]);
  }
  for (int row = 0; row < rows.outputCount; ++row)
    reinterpret_cast<Packed *>(rows.outputs[row])[pack] = values;
}

template <typename T, typename Accumulator, int count>
__global__ void combine(Rows<T> rows, size_t elements,
                        Arithmetic<Accumulator> how) {
  size_t thread = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  size_t stride = size_t(gridDim.x) * blockDim.x;
  size_t packs = elements / count;
  for (size_t pack = thread; pack < packs; pack += stride)
    combinePack<T, Accumulator, count>(rows, pack, how);
  if (size_t last = packs * count + thread; last < elements)
    combinePack<T, Accumulator, 1>(rows, last, how);
}

template <typename T, typename Accumulator = T>
void launchReduction(std::span<const void *const> sources,
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
  Arithmetic<Accumulator> how{isMax, combination.pre != 1 && !isMax, post != 1,
                              static_cast<Accumulator>(combination.pre),
                              static_cast<Accumulator>(post)};
  // 16 bytes at a time if all rows allow it.
  constexpr int kCount = 16 / sizeof(T);
  bool isAligned = true;
  for (auto &&pointers : {sources, std::span<const void *const>(outputs)})
    for (const void *pointer : pointers)
      isAligned &= reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
  auto put = [&](auto *kernel, size_t packs) {
    launchKernel("the kernel of a reduction", kernel, blocksFor(packs),
                 kThreads, stream, rows, elements, how);
  };
  if (isAligned)
    put(combine<T, Accumulator, kCount>, (elements + kCount - 1) / kCount);
  else
    put(combine<T, Accumulator, 1>, elements);
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
    launchReduction<T, Accumulator>(sources, outputs, count, combination,
                                    stream);
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
  case DType::f8e8m0fnu:
    return checkReduction(dtype, combination.reduction);
  }
}

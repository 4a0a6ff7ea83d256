//===- SumParts.cu - Sums of what other ranks gave, on a device -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parts lie behind each other, so any number of ranks is a stride. A thread
// reads 16 bytes of each part and writes as many sums as that are elements.
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Launches.cuh"

#include "support/Error.h"

#include <cstdint>
#include <cstring>

using namespace fsdp;
using plan::DType;

namespace {

/// Bits of e4m3 without infinities.
struct DeviceE4M3 {
  uint8_t bits;
};

template <typename T>
__device__ float toFloat(T value) {
  return static_cast<float>(value);
}
/// As Reduce.cpp: an exponent of f32's bias, scaled, makes subnormals normal.
__device__ float toFloat(DeviceE4M3 value) {
  uint32_t word = uint32_t(value.bits & 0x7F) << 20;
  float scaled;
  memcpy(&scaled, &word, sizeof(scaled));
  scaled *= 0x1p120f;
  uint32_t bits;
  memcpy(&bits, &scaled, sizeof(bits));
  bits = (word == 0x07F00000 ? 0x7FC00000 : bits) | uint32_t(value.bits & 0x80)
                                                        << 24;
  memcpy(&scaled, &bits, sizeof(bits));
  return scaled;
}

/// Numbers that are read at once.
template <typename T, int count>
struct alignas(count * sizeof(T)) PartPack {
  T at[count];
};

/// Sums that are written at once: up to 16 bytes.
template <int count>
struct alignas(count >= 4 ? 16 : 4) SumPack {
  float at[count];
};

struct SummedParts {
  const void *parts;
  float *sum;
  size_t elements;
  int count;
  float pre, post;
};

/// The order and the roundings of Reduce.cpp.
template <typename T, int count>
__device__ void sumPack(const SummedParts &told, size_t pack) {
  using Packed = PartPack<T, count>;
  const T *from = static_cast<const T *>(told.parts) + pack * count;
  Packed values = *reinterpret_cast<const Packed *>(from);
  SumPack<count> sums;
#pragma unroll
  for (int i = 0; i < count; ++i) {
    sums.at[i] = toFloat(values.at[i]);
    if (told.pre != 1)
      sums.at[i] = sums.at[i] / told.pre;
  }
  for (int part = 1; part < told.count; ++part) {
    from += told.elements;
    values = *reinterpret_cast<const Packed *>(from);
#pragma unroll
    for (int i = 0; i < count; ++i) {
      float value = toFloat(values.at[i]);
      if (told.pre != 1)
        value = value / told.pre;
      sums.at[i] = sums.at[i] + value;
    }
  }
#pragma unroll
  for (int i = 0; i < count; ++i)
    if (told.post != 1)
      sums.at[i] = sums.at[i] / told.post;
  *reinterpret_cast<SumPack<count> *>(told.sum + pack * count) = sums;
}

template <typename T, int count>
__global__ void sumParts(SummedParts told) {
  size_t thread = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  size_t stride = size_t(gridDim.x) * blockDim.x;
  size_t packs = told.elements / count;
  for (size_t pack = thread; pack < packs; pack += stride)
    sumPack<T, count>(told, pack);
}

template <typename T>
void launchSum(const DeviceParts &told, StreamHandle stream) {
  SummedParts parts{told.parts,
                    static_cast<float *>(told.sum),
                    told.elements,
                    told.count,
                    static_cast<float>(told.pre),
                    static_cast<float>(told.post)};
  constexpr int kCount = 16 / sizeof(T);
  // Each part begins behind the one before it.
  bool isAligned = told.elements % kCount == 0;
  for (const void *pointer : {told.parts, static_cast<const void *>(told.sum)})
    isAligned &= reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
  auto put = [&](auto *kernel, size_t packs) {
    launchKernel("the kernel of a sum of parts", kernel, blocksFor(packs),
                 kThreads, stream, parts);
  };
  if (isAligned)
    put(sumParts<T, kCount>, told.elements / kCount);
  else
    put(sumParts<T, 1>, told.elements);
}

} // namespace

void fsdp::sumPartsOnDevice(const DeviceParts &told, StreamHandle stream) {
  if (told.elements == 0)
    return;
  switch (told.dtype) {
  case DType::f32:
    return launchSum<float>(told, stream);
  case DType::f16:
    return launchSum<__half>(told, stream);
  case DType::bf16:
    return launchSum<__nv_bfloat16>(told, stream);
  case DType::f8e4m3fn:
    return launchSum<DeviceE4M3>(told, stream);
  default:
    return checkReduction(told.dtype, plan::Reduction::sum, DType::f32);
  }
}

//===- Elements.cuh - A thread's elements as they are stored ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_CUDA_ELEMENTS_CUH
#define FSDP_RUNTIME_CUDA_ELEMENTS_CUH

#include "runtime/optimize/Elements.h"

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace fsdp {

/// Elements of a thread, which are neighbours.
inline constexpr int kEach = 8;

/// 16 bytes at most, which are read and written at once.
template <int count>
struct alignas(4 * count) Words {
  uint32_t at[count];
};

/// A thread's elements of a type of 1, 2 or 4 bytes.
template <typename T>
struct InWords {
  static constexpr int kAll = kEach * sizeof(T) / 4;
  static constexpr int kAtOnce = kAll < 4 ? kAll : 4;
  static constexpr int kOfWord = 4 / sizeof(T), kBits = 8 * sizeof(T);
};

/// Elements of one thread as they are stored, which are of 1, 2 or 4 bytes: all
/// 8 at once, or as many as there are.
template <typename T>
__device__ void loadAll(const T *from, int count, bool isWide, T *to) {
  constexpr int kWords = InWords<T>::kAll, kAtOnce = InWords<T>::kAtOnce,
                kOfWord = InWords<T>::kOfWord, kBits = InWords<T>::kBits;
  if (isWide) {
#pragma unroll
    for (int i = 0; i < kWords; i += kAtOnce) {
      auto words = reinterpret_cast<const Words<kAtOnce> *>(from)[i / kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce * kOfWord; ++j) {
        uint32_t word = words.at[j / kOfWord];
        if constexpr (kOfWord == 1)
          to[i + j] = __builtin_bit_cast(T, word);
        else
          to[i * kOfWord + j] = static_cast<T>(word >> (j % kOfWord * kBits));
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      to[i] = i < count ? from[i] : T();
  }
}

template <typename T>
__device__ void storeAll(const T *from, int count, bool isWide, T *to) {
  constexpr int kWords = InWords<T>::kAll, kAtOnce = InWords<T>::kAtOnce,
                kOfWord = InWords<T>::kOfWord, kBits = InWords<T>::kBits;
  if (isWide) {
#pragma unroll
    for (int i = 0; i < kWords; i += kAtOnce) {
      Words<kAtOnce> words{};
#pragma unroll
      for (int j = 0; j < kAtOnce * kOfWord; ++j)
        if constexpr (kOfWord == 1)
          words.at[j] = __builtin_bit_cast(uint32_t, from[i + j]);
        else
          words.at[j / kOfWord] |= uint32_t(from[i * kOfWord + j])
                                   << (j % kOfWord * kBits);
      reinterpret_cast<Words<kAtOnce> *>(to)[i / kAtOnce] = words;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      if (i < count)
        to[i] = from[i];
  }
}

/// Numbers that `from`, the tensor's begin, has from element `at` on.
__device__ inline void read(Form form, const char *from, int64_t at, int count,
                            bool isWide, const float *values, float scale,
                            float *to) {
  if (form == Form::f32)
    return loadAll(reinterpret_cast<const float *>(from) + at, count, isWide,
                   to);
  if (form == Form::bf16) {
    uint16_t codes[kEach];
    loadAll(reinterpret_cast<const uint16_t *>(from) + at, count, isWide,
            codes);
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      to[i] = element::fromBf16(codes[i]);
  } else if (form == Form::f16) {
    uint16_t codes[kEach];
    loadAll(reinterpret_cast<const uint16_t *>(from) + at, count, isWide,
            codes);
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      to[i] = static_cast<float>(__builtin_bit_cast(__half, codes[i]));
  } else {
    uint8_t codes[kEach];
    loadAll(reinterpret_cast<const uint8_t *>(from) + at, count, isWide, codes);
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      to[i] = values[codes[i]] * scale;
  }
}

} // namespace fsdp

#endif // FSDP_RUNTIME_CUDA_ELEMENTS_CUH

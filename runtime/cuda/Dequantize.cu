//===- Dequantize.cu - Numbers out of blocks of codes on a device ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A thread block makes one tile of numbers: its codes come into shared memory
// 16 bytes at a time, whatever the rows' own length, and each thread writes 16
// bytes of results at a time. What a number is, BlockNumbers.h says to the host
// and to this.
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Launches.cuh"
#include "support/BlockNumbers.h"

#include <array>
#include <bit>
#include <cstdint>
#include <type_traits>

using namespace fsdp;
using plan::DType;

namespace {

/// Elements of a tile: whole blocks, of one row where rows have many.
constexpr unsigned kTile = BlockForm::kGreatest;
constexpr unsigned kMostBlocks = kTile / BlockForm::kLeast;
/// Of a tile's codes, and what lies between: four words of scales and skew.
constexpr unsigned kMostWords = kTile / 4 + kMostBlocks + 4;

/// What is read and written at once.
template <typename T>
struct alignas(16) Pack {
  static constexpr unsigned kCount = 16 / sizeof(T);
  T at[kCount];
};

struct NoNumbers {};
template <unsigned count>
struct Numbers {
  float at[count];
};
template <unsigned count>
Numbers<count> toNumbers(const std::array<float, count> &from) {
  Numbers<count> numbers;
  std::copy(from.begin(), from.end(), numbers.at);
  return numbers;
}

struct CodedTensor {
  const uint8_t *rows;
  void *output;
  size_t elements;
  unsigned shift; ///< log2 of a block's elements
  unsigned codeBytes;
  bool isAligned; ///< the output, to 16 bytes
};

struct ToFloat {
  using Type = float;
  static __device__ float round(float value) { return value; }
};
struct ToBFloat16 {
  using Type = uint16_t;
  static __device__ uint16_t round(float value) {
    return element::toBf16(value);
  }
};
struct ToHalf {
  using Type = uint16_t;
  static __device__ uint16_t round(float value) {
    return blocks::roundToHalf(value);
  }
};

__device__ unsigned readWord(const uint8_t *from) {
  return from[0] | unsigned(from[1]) << 8 | unsigned(from[2]) << 16 |
         unsigned(from[3]) << 24;
}

/// Brings `words` from `from` to shared memory. Returns where there they begin:
/// as far behind a multiple of 16 bytes as they do here, if they are words.
__device__ unsigned load(const uint8_t *from, unsigned words, uint32_t *to) {
  auto skew = static_cast<unsigned>(reinterpret_cast<uintptr_t>(from) % 16);
  if (skew % 4 != 0) {
    for (unsigned i = threadIdx.x; i < words; i += blockDim.x)
      to[i] = readWord(from + size_t(4) * i);
    return 0;
  }
  unsigned begin = skew / 4;
  unsigned head = begin == 0 ? 0 : 4 - begin;
  if (head > words)
    head = words;
  unsigned packs = (words - head) / 4, tail = (words - head) % 4;
  const auto *narrow = reinterpret_cast<const uint32_t *>(from);
  const auto *wide = reinterpret_cast<const Pack<uint32_t> *>(narrow + head);
  auto *wideTo = reinterpret_cast<Pack<uint32_t> *>(to + begin + head);
  for (unsigned i = threadIdx.x; i < packs; i += blockDim.x)
    wideTo[i] = wide[i];
  if (threadIdx.x < head)
    to[begin + threadIdx.x] = narrow[threadIdx.x];
  unsigned last = head + 4 * packs + threadIdx.x;
  if (threadIdx.x < tail)
    to[begin + last] = narrow[last];
  return begin;
}

/// Numbers of the codes from element `at` of a block on, whose codes begin at
/// `codes`.
template <int bits, typename Rounding, unsigned count>
__device__ void decodePack(const uint32_t *codes, unsigned at, float scale,
                           const float *numbers,
                           Pack<typename Rounding::Type> &to) {
#pragma unroll
  for (unsigned i = 0; i < count; i += 4) {
    // Four elements, of which the first has the lowest byte.
    uint32_t word = codes[(at + i) * bits / 32] >> ((at + i) * bits % 32);
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) {
      float number;
      if constexpr (bits == 4)
        number = numbers[word >> (8 * (k / 2) + (k % 2 == 0 ? 4 : 0)) & 15];
      else
        number = static_cast<float>(static_cast<int8_t>(word >> 8 * k));
      to.at[i + k] = Rounding::round(blocks::decode(number, scale));
    }
  }
}

template <int bits, typename Rounding, typename CodeNumbers,
          typename ScaleNumbers>
__global__ void dequantizeTile(CodedTensor tensor, CodeNumbers codeNumbers,
                               ScaleNumbers scaleNumbers) {
  constexpr bool hasCodedScales = !std::is_same_v<ScaleNumbers, NoNumbers>;
  using T = typename Rounding::Type;
  constexpr unsigned kCount = Pack<T>::kCount;
  alignas(16) __shared__ uint32_t words[kMostWords];
  __shared__ float scales[kMostBlocks];
  __shared__ float numbers[16];

  size_t first = size_t(blockIdx.x) * kTile;
  size_t left = tensor.elements - first;
  unsigned count = left < kTile ? static_cast<unsigned>(left) : kTile;
  unsigned mask = (1u << tensor.shift) - 1;
  unsigned tileBlocks = (count + mask) >> tensor.shift;
  size_t firstBlock = first >> tensor.shift;
  unsigned stride = tensor.codeBytes / 4; // words from block to block
  const uint8_t *codes;
  if constexpr (hasCodedScales) {
    constexpr unsigned kTogether = BlockForm::kTogether;
    size_t rowBytes = 8 + kTogether + size_t(kTogether) * tensor.codeBytes;
    const uint8_t *row = tensor.rows + firstBlock / kTogether * rowBytes;
    auto inRow = static_cast<unsigned>(firstBlock % kTogether);
    if (threadIdx.x < tileBlocks)
      scales[threadIdx.x] = blocks::decodeScale(
          scaleNumbers.at[row[8 + inRow + threadIdx.x]],
          blocks::numberOf(readWord(row)), blocks::numberOf(readWord(row + 4)));
    codes = row + 8 + kTogether + size_t(inRow) * tensor.codeBytes;
  } else {
    stride += 1;
    codes = tensor.rows + firstBlock * 4 * stride;
  }
  if constexpr (bits == 4)
    if (threadIdx.x < 16)
      numbers[threadIdx.x] = codeNumbers.at[threadIdx.x];
  unsigned begin = load(codes, tileBlocks * stride, words);
  __syncthreads();

  T *output = static_cast<T *>(tensor.output) + first;
  for (unsigned at = threadIdx.x * kCount; at < count;
       at += blockDim.x * kCount) {
    const uint32_t *block = words + begin + (at >> tensor.shift) * stride;
    float scale;
    if constexpr (hasCodedScales)
      scale = scales[at >> tensor.shift];
    else
      scale = blocks::numberOf(*block++);
    Pack<T> pack;
    decodePack<bits, Rounding, kCount>(block, at & mask, scale, numbers, pack);
    if (tensor.isAligned && at + kCount <= count) {
      *reinterpret_cast<Pack<T> *>(output + at) = pack;
    } else {
#pragma unroll
      for (unsigned i = 0; i < kCount; ++i)
        if (at + i < count)
          output[at + i] = pack.at[i];
    }
  }
}

template <int bits, typename Rounding, typename CodeNumbers>
void launch(const DeviceDequantize &told, const CodedTensor &tensor,
            const CodeNumbers &numbers, StreamHandle stream) {
  auto tiles = static_cast<unsigned>((told.elements + kTile - 1) / kTile);
  auto put = [&](auto *kernel, const auto &scaleNumbers) {
    launchKernel("the kernel of dequantize", kernel, tiles, kThreads, stream,
                 tensor, numbers, scaleNumbers);
  };
  if (told.form.hasCodedScales)
    put(dequantizeTile<bits, Rounding, CodeNumbers, Numbers<256>>,
        toNumbers<256>(kScaleNumbers));
  else
    put(dequantizeTile<bits, Rounding, CodeNumbers, NoNumbers>, NoNumbers());
}

template <typename Rounding>
void launchRounded(const DeviceDequantize &told, const CodedTensor &tensor,
                   StreamHandle stream) {
  if (told.form.kind == BlockKind::Int8)
    launch<8, Rounding>(told, tensor, NoNumbers(), stream);
  else
    launch<4, Rounding>(told, tensor, toNumbers<16>(getNumbers(told.form.kind)),
                        stream);
}

} // namespace

void fsdp::dequantizeOnDevice(const DeviceDequantize &told,
                              StreamHandle stream) {
  if (told.elements == 0)
    return;
  CodedTensor tensor{static_cast<const uint8_t *>(told.rows),
                     told.output,
                     told.elements,
                     static_cast<unsigned>(std::countr_zero(
                         static_cast<uint64_t>(told.form.elements))),
                     static_cast<unsigned>(told.form.getCodeBytes()),
                     reinterpret_cast<uintptr_t>(told.output) % 16 == 0};
  if (told.dtype == DType::f32)
    launchRounded<ToFloat>(told, tensor, stream);
  else if (told.dtype == DType::bf16)
    launchRounded<ToBFloat16>(told, tensor, stream);
  else
    launchRounded<ToHalf>(told, tensor, stream);
}

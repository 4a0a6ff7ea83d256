//===- Draw.cu - Random numbers on a device -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The counters of docs/Rationale/Random.md. A thread makes one block of four
// words: word w of block 16 c + b is word 16 w + b of chunk c. Intrinsics that
// round each step keep multiply and add apart where the host does.
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Launches.cuh"
#include "support/Philox.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

using namespace fsdp;
using plan::Distribution;
using plan::DType;

namespace {

/// Fills `output` with what `transform` makes of each block: `perBlock`
/// elements, 16 apart.
template <int perBlock, typename T, typename Transform>
__global__ void drawBlocks(const int64_t *state, uint32_t rank, uint32_t site,
                           T *output, size_t elements, Transform transform) {
  __shared__ philox::Key key;
  auto offset = static_cast<uint64_t>(state[1]);
  if (threadIdx.x == 0)
    key = philox::deriveKey(static_cast<uint64_t>(state[0]),
                            philox::Domain::Step, offset >> 32 << 32 | rank);
  __syncthreads();
  size_t blocks = (elements + 16 * perBlock - 1) / (16 * perBlock) * 16;
  size_t stride = size_t(gridDim.x) * blockDim.x;
  for (size_t block = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
       block < blocks; block += stride) {
    philox::Block words = philox::generate(
        {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), site,
         static_cast<uint32_t>(offset)},
        key);
    T made[perBlock];
    transform(words, made);
    size_t at = block / 16 * (16 * perBlock) + block % 16;
    for (int i = 0; i < perBlock; ++i, at += 16)
      if (at < elements)
        output[at] = made[i];
  }
}

template <typename T>
using WideOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// With 64 random bits a number, or 32.
template <typename T>
constexpr int kPerBlock = std::is_same_v<T, double> ? 2 : 4;

__device__ float multiply(float a, float b) { return __fmul_rn(a, b); }
__device__ double multiply(double a, double b) { return __dmul_rn(a, b); }
__device__ float add(float a, float b) { return __fadd_rn(a, b); }
__device__ double add(double a, double b) { return __dadd_rn(a, b); }

/// `inner` of a number in (0, 1).
template <typename T, typename Inner>
struct FromOpen {
  Inner inner;
  __device__ void operator()(const philox::Block &words, T *made) const {
    if constexpr (std::is_same_v<T, double>) {
      for (int i = 0; i < 2; ++i)
        made[i] = inner(philox::toOpen(words[i], words[i + 2]));
    } else {
      for (int i = 0; i < 4; ++i)
        made[i] = static_cast<T>(inner(philox::toOpen(words[i])));
    }
  }
};

/// Pairs of independent standard normals (Box and Muller).
template <typename T, typename Inner>
struct FromNormal {
  Inner inner;
  __device__ void operator()(const philox::Block &words, T *made) const {
    if constexpr (std::is_same_v<T, double>) {
      double radius = sqrt(-2 * log(philox::toOpen(words[0], words[1])));
      double angle =
          2 * 3.14159265358979323846 * philox::toUniform(words[2], words[3]);
      made[0] = inner(radius * cos(angle));
      made[1] = inner(radius * sin(angle));
    } else {
      for (int i = 0; i < 2; ++i) {
        float open = __fadd_rn(
            __fmul_rn(static_cast<float>(words[i] >> 8), 0x1p-24f), 0x1p-24f);
        float radius = sqrtf(-2 * logf(open));
        float angle =
            2 * 3.14159265358979323846f * philox::toUniform(words[i + 2]);
        made[i] = static_cast<T>(inner(radius * cosf(angle)));
        made[i + 2] = static_cast<T>(inner(radius * sinf(angle)));
      }
    }
  }
};

template <typename T>
constexpr int kDigits = 24;
template <>
constexpr int kDigits<__half> = 11;
template <>
constexpr int kDigits<__nv_bfloat16> = 8;

template <typename T>
struct Uniform {
  WideOf<T> from, width;
  __device__ void operator()(const philox::Block &words, T *made) const {
    if constexpr (std::is_same_v<T, double>) {
      for (int i = 0; i < 2; ++i)
        made[i] = add(
            multiply(philox::toUniform(words[i], words[i + 2]), width), from);
    } else {
      constexpr float kStep = 1.0f / (1 << kDigits<T>);
      for (int i = 0; i < 4; ++i) {
        auto whole = static_cast<float>(
            static_cast<int32_t>(words[i] >> (32 - kDigits<T>)));
        made[i] =
            static_cast<T>(add(multiply(multiply(whole, kStep), width), from));
      }
    }
  }
};

template <typename T>
struct Bernoulli {
  uint32_t limit;
  bool isCertain;
  __device__ void operator()(const philox::Block &words, T *made) const {
    for (int i = 0; i < 4; ++i)
      made[i] = static_cast<T>(isCertain || words[i] < limit ? 1.0f : 0.0f);
  }
};

template <typename T>
struct Integers {
  uint64_t least, values; ///< 0: 2^64
  __device__ void operator()(const philox::Block &words, T *made) const {
    for (int i = 0; i < 2; ++i) {
      uint64_t bits = philox::join(words[i], words[i + 2]);
      if (values != 0)
        bits = __umul64hi(bits, values);
      auto number = static_cast<int64_t>(bits + least);
      if constexpr (std::is_integral_v<T> || std::is_same_v<T, float> ||
                    std::is_same_v<T, double>)
        made[i] = static_cast<T>(number);
      else
        made[i] = static_cast<T>(static_cast<float>(number));
    }
  }
};

template <typename Wide>
struct Scale {
  Wide mean, deviation;
  __device__ Wide operator()(Wide x) const {
    return add(multiply(x, deviation), mean);
  }
};
template <typename Wide>
struct ScaleAndExp {
  Wide mean, deviation;
  __device__ Wide operator()(Wide x) const {
    return exp(add(multiply(x, deviation), mean));
  }
};
template <typename Wide>
struct Exponential {
  Wide rate;
  __device__ Wide operator()(Wide u) const { return -log(u) / rate; }
};
template <typename Wide>
struct Cauchy {
  Wide median, sigma;
  __device__ Wide operator()(Wide u) const {
    return median + sigma * tan(static_cast<Wide>(3.14159265358979323846) *
                                (u - static_cast<Wide>(0.5)));
  }
};
struct Geometric {
  double divisor;
  __device__ double operator()(double u) const {
    return fmax(ceil(log(u) / divisor), 1.0);
  }
};

template <int perBlock, typename T, typename Transform>
void fill(const DeviceDraw &draw, StreamHandle stream, Transform transform) {
  size_t blocks = (draw.elements + perBlock - 1) / perBlock;
  launchKernel("the kernel of a draw", drawBlocks<perBlock, T, Transform>,
               blocksFor(blocks), kThreads, stream, draw.state,
               static_cast<uint32_t>(draw.rank), draw.site,
               static_cast<T *>(draw.output), draw.elements, transform);
}

template <typename T>
void drawFloats(const DeviceDraw &draw, StreamHandle stream) {
  using Wide = WideOf<T>;
  constexpr int kCount = kPerBlock<T>;
  auto number = [&](size_t i) { return static_cast<Wide>(draw.numbers[i]); };
  switch (draw.kind) {
  case Distribution::uniform:
    return fill<kCount, T>(draw, stream,
                           Uniform<T>{number(0), number(1) - number(0)});
  case Distribution::normal:
    return fill<kCount, T>(draw, stream,
                           FromNormal<T, Scale<Wide>>{{number(0), number(1)}});
  case Distribution::log_normal:
    return fill<kCount, T>(
        draw, stream, FromNormal<T, ScaleAndExp<Wide>>{{number(0), number(1)}});
  case Distribution::exponential:
    return fill<kCount, T>(draw, stream,
                           FromOpen<T, Exponential<Wide>>{{number(0)}});
  default:
    return fill<kCount, T>(draw, stream,
                           FromOpen<T, Cauchy<Wide>>{{number(0), number(1)}});
  }
}

template <typename T>
void drawNumbers(const DeviceDraw &draw, StreamHandle stream) {
  switch (draw.kind) {
  case Distribution::bernoulli: {
    auto threshold =
        static_cast<uint64_t>(std::llround(draw.numbers[0] * 0x1p32));
    return fill<4, T>(
        draw, stream,
        Bernoulli<T>{static_cast<uint32_t>(threshold), (threshold >> 32) != 0});
  }
  case Distribution::integer: {
    auto least = static_cast<uint64_t>(draw.range[0]);
    return fill<2, T>(
        draw, stream,
        Integers<T>{least, static_cast<uint64_t>(draw.range[1]) - least + 1});
  }
  default:
    // The host computes in double, from a number of the element's precision.
    return fill<kPerBlock<T>, T>(
        draw, stream, FromOpen<T, Geometric>{{std::log1p(-draw.numbers[0])}});
  }
}

enum class Kind { none, floats, numbers };

Kind kindOf(Distribution distribution) {
  switch (distribution) {
  case Distribution::bernoulli:
  case Distribution::geometric:
  case Distribution::integer:
    return Kind::numbers;
  case Distribution::uniform:
  case Distribution::normal:
  case Distribution::log_normal:
  case Distribution::exponential:
  case Distribution::cauchy:
    return Kind::floats;
  default:
    return Kind::none; // those that reject, and read parameters by element
  }
}

/// Calls `body` with a number of the type; false: there is none.
template <typename Body>
bool dispatch(DType dtype, Body body) {
  switch (dtype) {
  case DType::f32:
    return body(float());
  case DType::f64:
    return body(double());
  case DType::f16:
    return body(__half());
  case DType::bf16:
    return body(__nv_bfloat16());
  case DType::i64:
    return body(int64_t());
  case DType::i32:
    return body(int32_t());
  case DType::i16:
    return body(int16_t());
  case DType::i8:
    return body(int8_t());
  case DType::u8:
    return body(uint8_t());
  case DType::bool_:
    return body(bool());
  default:
    return false;
  }
}

} // namespace

bool fsdp::canDrawOnDevice(const DeviceDraw &draw) {
  return dispatch(draw.dtype, [&]<typename T>(T) {
    return kindOf(draw.kind) == Kind::numbers ||
           (kindOf(draw.kind) == Kind::floats && !std::is_integral_v<T>);
  });
}

void fsdp::drawOnDevice(const DeviceDraw &draw, StreamHandle stream) {
  if (draw.elements == 0)
    return;
  dispatch(draw.dtype, [&]<typename T>(T) {
    if (kindOf(draw.kind) == Kind::numbers)
      drawNumbers<T>(draw, stream);
    else if constexpr (!std::is_integral_v<T>)
      drawFloats<T>(draw, stream);
    return true;
  });
}

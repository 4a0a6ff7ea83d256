//===- Sampling.cpp - Draws on the CPU ------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chunks of 16 blocks are generated side by side, so that the compiler makes
// vector code of it: word w of block b is element 16 w + b of the chunk.
//
//===----------------------------------------------------------------------===//

#include "runtime/random/Sampling.h"

#include "runtime/random/RejectionSampling.h"
#include "support/Vectorized.h"

#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

using namespace fsdp;

RandomSequence::RandomSequence(int64_t seed, int64_t offset, int rank,
                               uint32_t site)
    : key(philox::deriveKey(static_cast<uint64_t>(seed), philox::Domain::Step,
                            (static_cast<uint64_t>(offset) >> 32 << 32) |
                                static_cast<uint32_t>(rank))),
      site(site), offset(static_cast<uint32_t>(offset)) {}

namespace {

//===----------------------------------------------------------------------===//
// Chunks
//===----------------------------------------------------------------------===//

constexpr unsigned kBlocks = 16, kWords = 4 * kBlocks;

/// Integers alone.
FSDP_VECTORIZED
void generateChunk(uint64_t chunk, uint32_t site, uint32_t offset,
                   philox::Key key, uint32_t *words) {
  uint32_t lanes[4][kBlocks];
  uint64_t first = chunk * kBlocks; // no carry within a chunk
  for (unsigned i = 0; i < kBlocks; ++i) {
    lanes[0][i] = uint32_t(first) + i;
    lanes[1][i] = uint32_t(first >> 32);
    lanes[2][i] = site;
    lanes[3][i] = offset;
  }
  philox::generateLanes(lanes, key);
  std::memcpy(words, lanes, sizeof(lanes));
}

/// Fills `output` with `perChunk` elements out of each chunk:
/// `transform(words, elements)`.
template <unsigned perChunk, typename T, typename Transform>
void fill(const RandomSequence &sequence, const at::Tensor &output,
          Transform transform) {
  T *to = static_cast<T *>(output.mutable_data_ptr());
  int64_t count = output.numel();
  constexpr int64_t kGrain = 32768 / perChunk;
  at::parallel_for(0, (count + perChunk - 1) / perChunk, kGrain,
                   [&](int64_t begin, int64_t end) {
                     uint32_t words[kWords];
                     T elements[perChunk];
                     for (int64_t chunk = begin; chunk < end; ++chunk) {
                       generateChunk(chunk, sequence.site, sequence.offset,
                                     sequence.key, words);
                       int64_t at = chunk * perChunk;
                       if (count - at >= perChunk) {
                         transform(words, to + at);
                       } else {
                         transform(words, elements);
                         std::copy(elements, elements + (count - at), to + at);
                       }
                     }
                   });
}

//===----------------------------------------------------------------------===//
// Uniform numbers
//===----------------------------------------------------------------------===//

/// Fills with `transform` of a number in (0, 1), of double's precision if T is
/// a double, else of float's.
template <typename T, typename Transform>
void fillFromOpen(const RandomSequence &sequence, const at::Tensor &output,
                  Transform transform) {
  if constexpr (std::is_same_v<T, double>)
    fill<kWords / 2, T>(sequence, output, [&](const uint32_t *words, T *to) {
      for (unsigned i = 0; i < kWords / 2; ++i)
        to[i] = transform(philox::toOpen(words[i], words[i + kWords / 2]));
    });
  else
    fill<kWords, T>(sequence, output, [&](const uint32_t *words, T *to) {
      for (unsigned i = 0; i < kWords; ++i)
        to[i] = static_cast<T>(transform(philox::toOpen(words[i])));
    });
}

/// With as many digits as T has, so that no rounding gives the upper end.
template <typename T>
void fillUniform(const DrawParameters &parameters,
                 const RandomSequence &sequence, const at::Tensor &output) {
  using Wide = at::opmath_type<T>;
  auto from = static_cast<Wide>(parameters.numbers[0]);
  Wide width = static_cast<Wide>(parameters.numbers[1]) - from;
  if constexpr (std::is_same_v<T, double>)
    fill<kWords / 2, T>(sequence, output, [&](const uint32_t *words, T *to) {
      for (unsigned i = 0; i < kWords / 2; ++i)
        to[i] =
            philox::toUniform(words[i], words[i + kWords / 2]) * width + from;
    });
  else
    fill<kWords, T>(sequence, output, [&](const uint32_t *words, T *to) {
      constexpr int kDigits = std::numeric_limits<T>::digits;
      const float step = std::ldexp(1.0f, -kDigits);
      for (unsigned i = 0; i < kWords; ++i)
        to[i] = static_cast<T>(static_cast<float>(static_cast<int32_t>(
                                   words[i] >> (32 - kDigits))) *
                                   step * width +
                               from);
    });
}

//===----------------------------------------------------------------------===//
// Normal numbers, two out of two (Box and Muller)
//===----------------------------------------------------------------------===//

template <typename T, typename Transform>
void fillFromNormal(const RandomSequence &sequence, const at::Tensor &output,
                    Transform transform) {
  if constexpr (std::is_same_v<T, double>)
    fill<kWords / 2, T>(sequence, output, [&](const uint32_t *words, T *to) {
      constexpr unsigned kPairs = kWords / 4;
      for (unsigned i = 0; i < kPairs; ++i) {
        const uint32_t *word = words + i;
        double radius =
            std::sqrt(-2 * std::log(philox::toOpen(word[0], word[kPairs])));
        double angle = 2 * std::numbers::pi *
                       philox::toUniform(word[2 * kPairs], word[3 * kPairs]);
        to[i] = transform(radius * std::cos(angle));
        to[i + kPairs] = transform(radius * std::sin(angle));
      }
    });
  else
    fill<kWords, T>(sequence, output, [&](const uint32_t *words, T *to) {
      constexpr unsigned kPairs = kWords / 2;
      for (unsigned i = 0; i < kPairs; ++i) {
        auto [x, y] = philox::toNormals(words[i], words[i + kPairs]);
        to[i] = static_cast<T>(transform(x));
        to[i + kPairs] = static_cast<T>(transform(y));
      }
    });
}

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

/// 1 with a probability of `p`, in steps of 2^-32.
template <typename T>
void fillBernoulli(double p, const RandomSequence &sequence,
                   const at::Tensor &output) {
  auto threshold = static_cast<uint64_t>(std::llround(p * 0x1p32));
  if (threshold >> 32) {
    output.fill_(1);
    return;
  }
  auto limit = static_cast<uint32_t>(threshold);
  fill<kWords, T>(sequence, output, [limit](const uint32_t *words, T *to) {
    for (unsigned i = 0; i < kWords; ++i)
      to[i] = static_cast<T>(words[i] < limit);
  });
}

/// The high half of 64 random bits times the number of values: none is likelier
/// than another by more than 2^-64.
template <typename T>
void fillIntegers(const std::vector<int64_t> &range,
                  const RandomSequence &sequence, const at::Tensor &output) {
  auto least = static_cast<uint64_t>(range[0]);
  uint64_t values = static_cast<uint64_t>(range[1]) - least + 1; // 0: 2^64
  fill<kWords / 2, T>(sequence, output, [&](const uint32_t *words, T *to) {
    for (unsigned i = 0; i < kWords / 2; ++i) {
      uint64_t bits = philox::join(words[i], words[i + kWords / 2]);
      if (values != 0)
        bits = static_cast<uint64_t>(
            static_cast<unsigned __int128>(bits) * values >> 64);
      to[i] = static_cast<T>(static_cast<int64_t>(bits + least));
    }
  });
}

//===----------------------------------------------------------------------===//
// One sequence for each element
//===----------------------------------------------------------------------===//

template <typename T>
void fillGiven(const DrawParameters &parameters, const RandomSequence &sequence,
               const at::Tensor &output) {
  T *to = static_cast<T *>(output.mutable_data_ptr());
  const T *first = static_cast<const T *>(parameters.given[0].data_ptr());
  const T *second =
      parameters.given.size() < 2
          ? nullptr
          : static_cast<const T *>(parameters.given[1].data_ptr());
  at::parallel_for(0, output.numel(), 256, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      ElementSequence random(sequence, i);
      auto parameter = static_cast<double>(first[i]);
      switch (parameters.kind) {
      case plan::Distribution::poisson:
        to[i] = static_cast<T>(samplePoisson(random, parameter));
        break;
      case plan::Distribution::binomial:
        to[i] = static_cast<T>(
            sampleBinomial(random, parameter, static_cast<double>(second[i])));
        break;
      default:
        // Not zero: densities and gradients divide by it.
        to[i] = std::max(static_cast<T>(sampleGamma(random, parameter)),
                         std::numeric_limits<T>::min());
        break;
      }
    }
  });
}

//===----------------------------------------------------------------------===//
// By distribution
//===----------------------------------------------------------------------===//

template <typename T>
void fillFloats(const DrawParameters &parameters,
                const RandomSequence &sequence, const at::Tensor &output) {
  using Wide = at::opmath_type<T>;
  auto number = [&](size_t i) {
    return static_cast<Wide>(parameters.numbers[i]);
  };
  switch (parameters.kind) {
  case plan::Distribution::uniform:
    return fillUniform<T>(parameters, sequence, output);
  case plan::Distribution::normal:
    return fillFromNormal<T>(sequence, output,
                             [mean = number(0), deviation = number(1)](Wide x) {
                               return x * deviation + mean;
                             });
  case plan::Distribution::log_normal:
    return fillFromNormal<T>(sequence, output,
                             [mean = number(0), deviation = number(1)](Wide x) {
                               return std::exp(x * deviation + mean);
                             });
  case plan::Distribution::exponential:
    return fillFromOpen<T>(sequence, output, [rate = number(0)](Wide u) {
      return -std::log(u) / rate;
    });
  case plan::Distribution::cauchy:
    return fillFromOpen<T>(
        sequence, output, [median = number(0), sigma = number(1)](Wide u) {
          return median +
                 sigma * std::tan(std::numbers::pi_v<Wide> * (u - Wide(0.5)));
        });
  default:
    return fillGiven<T>(parameters, sequence, output);
  }
}

/// Distributions whose results may have any dtype.
template <typename T>
void fillNumbers(const DrawParameters &parameters,
                 const RandomSequence &sequence, const at::Tensor &output) {
  switch (parameters.kind) {
  case plan::Distribution::bernoulli:
    return fillBernoulli<T>(parameters.numbers[0], sequence, output);
  case plan::Distribution::integer:
    return fillIntegers<T>(parameters.range, sequence, output);
  default:
    return fillFromOpen<T>(
        sequence, output,
        [divisor = std::log1p(-parameters.numbers[0])](double u) {
          return std::max(std::ceil(std::log(u) / divisor), 1.0);
        });
  }
}

} // namespace

void fsdp::sample(const DrawParameters &parameters,
                  const RandomSequence &sequence, const at::Tensor &output) {
  switch (parameters.kind) {
  case plan::Distribution::bernoulli:
  case plan::Distribution::geometric:
  case plan::Distribution::integer:
    AT_DISPATCH_ALL_TYPES_AND3(
        at::kBool, at::kHalf, at::kBFloat16, output.scalar_type(), "draw",
        [&] { fillNumbers<scalar_t>(parameters, sequence, output); });
    return;
  default:
    AT_DISPATCH_FLOATING_TYPES_AND2(
        at::kHalf, at::kBFloat16, output.scalar_type(), "draw",
        [&] { fillFloats<scalar_t>(parameters, sequence, output); });
  }
}

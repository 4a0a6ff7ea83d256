//===- GrainSums.cpp - Sums of a rank's grains ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/optimize/GrainSums.h"

#include "plan/Grains.h"
#include "runtime/comm/Reduce.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

using namespace fsdp;

namespace {

/// Elements that a thread takes at a time.
constexpr int64_t kPiece = int64_t{1} << 15;
/// A thread's share of what is nothing: no sum changes by it.
constexpr int64_t kNothing = 4096;

const std::byte *nothingOf(c10::ScalarType type) {
  // All sign bits: -0 of 16, 32 and 64 bits.
  static const auto halves = [] {
    std::array<uint16_t, kNothing> values;
    values.fill(0x8000);
    return values;
  }();
  static const auto floats = [] {
    std::array<uint32_t, kNothing> values;
    values.fill(0x80000000);
    return values;
  }();
  static const auto doubles = [] {
    std::array<uint64_t, kNothing> values;
    values.fill(uint64_t{1} << 63);
    return values;
  }();
  if (type == c10::ScalarType::Double)
    return reinterpret_cast<const std::byte *>(doubles.data());
  if (type == c10::ScalarType::Float)
    return reinterpret_cast<const std::byte *>(floats.data());
  return reinterpret_cast<const std::byte *>(halves.data());
}

plan::DType dtypeOf(c10::ScalarType type) {
  switch (type) {
  case c10::ScalarType::Float:
    return plan::DType::f32;
  case c10::ScalarType::Double:
    return plan::DType::f64;
  case c10::ScalarType::BFloat16:
    return plan::DType::bf16;
  case c10::ScalarType::Half:
    return plan::DType::f16;
  default:
    TORCH_CHECK(false, "grains are sums of f32, f64, bf16 and f16, not ", type);
  }
}

/// `output` takes the partial sums from `from` up to `kept`, and the grain
/// behind them, summed from the last one on.
void sum(const at::Tensor &partials, uint32_t from, uint32_t kept,
         const at::Tensor &grain, bool isIdle, double divisor,
         const at::Tensor &output) {
  plan::DType dtype = dtypeOf(grain.scalar_type());
  auto bytes = static_cast<int64_t>(grain.element_size());
  auto *sums = static_cast<std::byte *>(partials.mutable_data_ptr());
  auto *own = static_cast<const std::byte *>(grain.const_data_ptr());
  auto *to = static_cast<std::byte *>(output.mutable_data_ptr());
  const std::byte *nothing = nothingOf(grain.scalar_type());
  int64_t elements = grain.numel();
  // All in one at the end: from the last one on.
  Combination combination(plan::Reduction::tree, 1, divisor);
  combination.order.assign(kept - from + 1, 0);
  auto add = [&](int64_t begin, int64_t end) {
    std::vector<const void *> sources(kept - from + 1);
    int64_t step = isIdle ? kNothing : end - begin;
    for (int64_t at = begin; at < end; at += step) {
      for (uint32_t i = from; i < kept; ++i)
        sources[i - from] = sums + (i * elements + at) * bytes;
      sources.back() = isIdle ? nothing : own + at * bytes;
      void *place = to + at * bytes;
      reduceRows(sources, {&place, 1},
                 static_cast<size_t>(std::min(step, end - at)), dtype,
                 combination);
    }
  };
  at::parallel_for(0, elements, kPiece, add);
}

} // namespace

void fsdp::addGrain(const at::Tensor &partials, uint32_t number,
                    const at::Tensor &grain, bool isIdle) {
  uint32_t kept = countKept(number);
  uint32_t from = kept - static_cast<uint32_t>(std::countr_one(number));
  sum(partials, from, kept, grain, isIdle, 1, partials.select(0, from));
}

void fsdp::endGrains(const at::Tensor &partials, uint32_t kept,
                     const at::Tensor &grain, bool isIdle, double divisor,
                     const at::Tensor &output) {
  sum(partials, 0, kept, grain, isIdle, divisor, output);
}

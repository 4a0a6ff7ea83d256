//===- Reduce.cpp - Combine rows of several ranks -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/Reduce.h"
#include "plan/DType.h"
#include "support/Error.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

using namespace fsdp;
using plan::DType;
using plan::Reduction;

namespace {

/// Upper half of an f32.
struct BFloat16 {
  uint16_t bits;

  operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
  /// Rounds to nearest, ties to even.
  static BFloat16 from(float value) {
    uint32_t word = std::bit_cast<uint32_t>(value);
    uint32_t rounded = (word + 0x7FFF + ((word >> 16) & 1)) >> 16;
    bool isNaN = (word & 0x7FFFFFFF) > 0x7F800000;
    return {static_cast<uint16_t>(isNaN ? 0x7FC0 : rounded)};
  }
};

/// IEEE half. The compiler's own `_Float16` calls a function for each element
/// where the processor at hand cannot be assumed to convert; this vectorises.
struct Float16 {
  uint16_t bits;

  operator float() const {
    uint32_t word = static_cast<uint32_t>(bits & 0x7FFF) << 13;
    // Scaling moves the exponent's bias and makes subnormals normal.
    float scaled = std::bit_cast<float>(word) * 0x1p112f;
    uint32_t finite = std::bit_cast<uint32_t>(scaled);
    uint32_t special = word | 0x7F800000;
    uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
    return std::bit_cast<float>((word >= 0x0F800000 ? special : finite) | sign);
  }
  /// Rounds to nearest, ties to even.
  static Float16 from(float value) {
    uint32_t word = std::bit_cast<uint32_t>(value);
    uint32_t magnitude = word & 0x7FFFFFFF;
    uint32_t normal =
        (magnitude - (112u << 23) + 0xFFF + ((magnitude >> 13) & 1)) >> 13;
    // Below 2^-14, adding 1/2 leaves just the bits that a subnormal keeps.
    uint32_t subnormal =
        std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) -
        std::bit_cast<uint32_t>(0.5f);
    uint32_t result = magnitude < 0x38800000 ? subnormal : normal;
    result = magnitude >= 0x477FF000 ? 0x7C00 : result; // rounds to infinity
    result = magnitude > 0x7F800000 ? 0x7E00 : result;  // not a number
    return {static_cast<uint16_t>(result | (word >> 16 & 0x8000))};
  }
};

/// e4m3 without infinities, which is only read.
struct Float8E4M3 {
  uint8_t bits;

  operator float() const {
    uint32_t word = static_cast<uint32_t>(bits & 0x7F) << 20;
    // As for halves.
    float scaled = std::bit_cast<float>(word) * 0x1p120f;
    uint32_t finite = std::bit_cast<uint32_t>(scaled);
    uint32_t sign = static_cast<uint32_t>(bits & 0x80) << 24;
    return std::bit_cast<float>((word == 0x07F00000 ? 0x7FC00000 : finite) |
                                sign);
  }
};

/// Elements that are combined at a time: stays in the first-level cache.
constexpr size_t kBlock = 1024;

template <typename Accumulator>
void divide(Accumulator *values, size_t count, double divisor) {
  if (divisor == 1)
    return;
  Accumulator by = static_cast<Accumulator>(divisor);
  for (size_t i = 0; i < count; ++i)
    values[i] /= by;
}

/// Rounds `count` sums, at most kBlock, into each output, from `begin` on.
template <typename Result, typename Accumulator>
void store(const Accumulator *sums, size_t count,
           std::span<void *const> outputs, size_t begin) {
  const void *result = sums;
  alignas(64) Result rounded[kBlock];
  if constexpr (!std::is_same_v<Result, Accumulator>) {
    for (size_t i = 0; i < count; ++i)
      rounded[i] = Result::from(sums[i]);
    result = rounded;
  }
  for (void *output : outputs)
    std::memcpy(static_cast<Result *>(output) + begin, result,
                count * sizeof(Result));
}

template <typename T, typename Accumulator, typename Result = T>
void addRows(std::span<const void *const> sources,
             std::span<void *const> outputs, size_t elements,
             const Combination &combination) {
  plan::Reduction reduction = combination.reduction;
  double pre = combination.pre, post = combination.post;
  alignas(64) Accumulator sum[kBlock];
  alignas(64) Accumulator row[kBlock];
  for (size_t begin = 0; begin < elements; begin += kBlock) {
    size_t count = std::min(kBlock, elements - begin);
    const T *first = static_cast<const T *>(sources[0]) + begin;
    for (size_t i = 0; i < count; ++i)
      sum[i] = first[i];
    divide(sum, count, pre);
    for (const void *source : sources.subspan(1)) {
      const T *next = static_cast<const T *>(source) + begin;
      if (reduction == Reduction::max) {
        // A NaN wins, as in torch.maximum.
        for (size_t i = 0; i < count; ++i) {
          Accumulator value = next[i];
          sum[i] = value > sum[i] || value != value ? value : sum[i];
        }
      } else if (pre == 1) {
        for (size_t i = 0; i < count; ++i)
          sum[i] += static_cast<Accumulator>(next[i]);
      } else {
        for (size_t i = 0; i < count; ++i)
          row[i] = next[i];
        divide(row, count, pre);
        for (size_t i = 0; i < count; ++i)
          sum[i] += row[i];
      }
    }
    divide(sum, count,
           reduction == Reduction::avg ? double(sources.size()) : post);
    store<Result>(sum, count, outputs, begin);
  }
}

/// Elements of each sum that is there, of which there may be many.
constexpr size_t kTreeBlock = 512;
static_assert(kTreeBlock <= kBlock);

/// The most sums that are there at a time.
size_t findDepth(const SumOrder &order) {
  size_t depth = 0, most = 0;
  for (uint8_t merges : order) {
    // An addend that ends sums is added where these lie.
    most = std::max(most, ++depth - (merges != 0 ? 1 : 0));
    depth -= merges;
  }
  return std::max<size_t>(most, 1);
}

template <typename T, typename Accumulator>
class TreeSum {
public:
  TreeSum(std::span<const void *const> sources, const Combination &combination)
      : sources(sources), combination(combination),
        sums(findDepth(combination.order) * kTreeBlock) {}

  /// Of `count` elements, which the first of the sums then holds.
  const Accumulator *run(size_t begin, size_t count) {
    size_t kept = 0;
    for (size_t i = 0; i < sources.size(); ++i) {
      const T *source = static_cast<const T *>(sources[i]) + begin;
      size_t merges = combination.order[i];
      if (merges == 0) {
        load(source, count, at(kept++));
        continue;
      }
      addTo(at(kept - 1), source, count);
      for (; merges > 1; --merges, --kept)
        addTo(at(kept - 2), at(kept - 1), count);
    }
    for (; kept > 1; --kept)
      addTo(at(kept - 2), at(kept - 1), count);
    if (combination.post != 1)
      divide(at(0), count, combination.post);
    return at(0);
  }

private:
  Accumulator *at(size_t sum) { return sums.data() + sum * kTreeBlock; }

  static Accumulator round(Accumulator value) {
    if constexpr (std::is_same_v<T, Accumulator>)
      return value;
    else
      return T::from(value);
  }

  static void load(const T *from, size_t count, Accumulator *to) {
    for (size_t i = 0; i < count; ++i)
      to[i] = from[i];
  }

  template <typename Addend>
  static void addTo(Accumulator *sum, const Addend *addend, size_t count) {
    for (size_t i = 0; i < count; ++i)
      sum[i] = round(sum[i] + static_cast<Accumulator>(addend[i]));
  }

  std::span<const void *const> sources;
  const Combination &combination;
  std::vector<Accumulator> sums;
};

template <typename T, typename Accumulator>
void addTree(std::span<const void *const> sources,
             std::span<void *const> outputs, size_t elements,
             const Combination &combination) {
  TreeSum<T, Accumulator> tree(sources, combination);
  for (size_t begin = 0; begin < elements; begin += kTreeBlock) {
    size_t count = std::min(kTreeBlock, elements - begin);
    store<T>(tree.run(begin, count), count, outputs, begin);
  }
}

/// Of grains.
void reduceTree(std::span<const void *const> sources,
                std::span<void *const> outputs, size_t elements, DType dtype,
                const Combination &combination) {
  checkReduction(dtype, Reduction::tree);
  if (combination.order.size() != sources.size())
    throw Error(ErrorId::ReductionUnsupported,
                "expected an order of " + std::to_string(sources.size()) +
                    " sums of grains, found one of " +
                    std::to_string(combination.order.size()));
  if (dtype == DType::f64)
    return addTree<double, double>(sources, outputs, elements, combination);
  if (dtype == DType::f16)
    return addTree<Float16, float>(sources, outputs, elements, combination);
  if (dtype == DType::bf16)
    return addTree<BFloat16, float>(sources, outputs, elements, combination);
  return addTree<float, float>(sources, outputs, elements, combination);
}

} // namespace

void fsdp::checkReduction(DType dtype, Reduction reduction, DType result) {
  if (result != dtype &&
      !(canWiden(dtype, result) && reduction != Reduction::max &&
        reduction != Reduction::tree))
    throw Error(ErrorId::ReductionUnsupported,
                "expected sums of " + std::string(dtypeName(dtype)) +
                    " in that type, or of 16-bit floats and e4m3 in f32, "
                    "found " +
                    std::string(plan::EnumNameReduction(reduction)) + " in " +
                    std::string(dtypeName(result)));
  bool supported = true;
  switch (dtype) {
  case DType::f32:
  case DType::f64:
  case DType::f16:
  case DType::bf16:
    break;
  case DType::c64:
  case DType::c128:
    supported = reduction != Reduction::max && reduction != Reduction::tree;
    break;
  case DType::bool_:
    supported = reduction == Reduction::max;
    break;
  case DType::f8e4m3fn:
  case DType::f8e5m2:
    supported = result != dtype;
    break;
  case DType::f8e8m0fnu:
    supported = false;
    break;
  default:
    supported = reduction != Reduction::avg && reduction != Reduction::tree;
  }
  if (!supported)
    throw Error(ErrorId::ReductionUnsupported,
                "expected a reduction that is defined for the element type, "
                "found " +
                    std::string(plan::EnumNameReduction(reduction)) + " of " +
                    std::string(dtypeName(dtype)) +
                    "; reduce in a floating-point type");
}

void fsdp::reduceRows(std::span<const void *const> sources,
                      std::span<void *const> outputs, size_t elements,
                      DType dtype, DType result,
                      const Combination &combination) {
  if (combination.reduction == Reduction::tree && result == dtype)
    return reduceTree(sources, outputs, elements, dtype, combination);
  if (result != dtype) {
    checkReduction(dtype, combination.reduction, result);
    if (dtype == DType::bf16)
      return addRows<BFloat16, float, float>(sources, outputs, elements,
                                             combination);
    if (dtype == DType::f8e4m3fn)
      return addRows<Float8E4M3, float, float>(sources, outputs, elements,
                                               combination);
    return addRows<Float16, float, float>(sources, outputs, elements,
                                          combination);
  }
  switch (dtype) {
  case DType::f32:
    return addRows<float, float>(sources, outputs, elements, combination);
  case DType::f64:
    return addRows<double, double>(sources, outputs, elements, combination);
  case DType::f16:
    return addRows<Float16, float>(sources, outputs, elements, combination);
  case DType::bf16:
    return addRows<BFloat16, float>(sources, outputs, elements, combination);
  case DType::c64:
    return addRows<float, float>(sources, outputs, 2 * elements, combination);
  case DType::c128:
    return addRows<double, double>(sources, outputs, 2 * elements, combination);
  // Sums of integers wrap, hence unsigned.
  case DType::i64:
    if (combination.reduction == Reduction::max)
      return addRows<int64_t, int64_t>(sources, outputs, elements, combination);
    [[fallthrough]];
  case DType::u64:
    return addRows<uint64_t, uint64_t>(sources, outputs, elements, combination);
  case DType::i32:
    if (combination.reduction == Reduction::max)
      return addRows<int32_t, int32_t>(sources, outputs, elements, combination);
    [[fallthrough]];
  case DType::u32:
    return addRows<uint32_t, uint32_t>(sources, outputs, elements, combination);
  case DType::i16:
    return addRows<int16_t, int16_t>(sources, outputs, elements, combination);
  case DType::u16:
    return addRows<uint16_t, uint16_t>(sources, outputs, elements, combination);
  case DType::i8:
    return addRows<int8_t, int8_t>(sources, outputs, elements, combination);
  case DType::u8:
  case DType::bool_:
    return addRows<uint8_t, uint8_t>(sources, outputs, elements, combination);
  case DType::f8e4m3fn:
  case DType::f8e5m2:
  case DType::f8e8m0fnu:
    return checkReduction(dtype, combination.reduction);
  }
}

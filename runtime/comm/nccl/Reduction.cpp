//===- Reduction.cpp - Reductions in NCCL's terms -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/nccl/Reduction.h"
#include "plan/DType.h"
#include "support/Error.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cstring>
#include <stdexcept>
#include <string>

using namespace fsdp;
using plan::DType;
using plan::Reduction;

static NcclElement toElement(DType dtype) {
  switch (dtype) {
  case DType::f32:
    return {nccl::DataType::float32, 1};
  case DType::f64:
    return {nccl::DataType::float64, 1};
  case DType::f16:
    return {nccl::DataType::float16, 1};
  case DType::bf16:
    return {nccl::DataType::bfloat16, 1};
  case DType::i64:
    return {nccl::DataType::int64, 1};
  case DType::i32:
    return {nccl::DataType::int32, 1};
  case DType::i8:
    return {nccl::DataType::int8, 1};
  case DType::u8:
  case DType::bool_: // the maximum of 0 and 1
    return {nccl::DataType::uint8, 1};
  case DType::u32:
    return {nccl::DataType::uint32, 1};
  case DType::u64:
    return {nccl::DataType::uint64, 1};
  case DType::c64:
    return {nccl::DataType::float32, 2};
  case DType::c128:
    return {nccl::DataType::float64, 2};
  case DType::i16:
  case DType::u16:
  case DType::f8e4m3fn: // refused by checkReduction
  case DType::f8e5m2:
  case DType::f8e8m0fnu:
    break;
  }
  throw Error(ErrorId::ReductionUnsupported,
              "NCCL reduces no elements of type " +
                  std::string(dtypeName(dtype)) +
                  "; reduce in a floating-point type, or in 32-bit integers");
}

NcclReduction fsdp::toNcclReduction(DType dtype, const Combination &combination,
                                    int ranks) {
  checkReduction(dtype, combination.reduction);
  NcclElement element = toElement(dtype);
  if (combination.reduction == Reduction::max)
    return {element, nccl::RedOp::max};
  bool isDivided = combination.pre != 1 || combination.post != 1;
  if (isDivided && !isFloat(dtype) && element.parts == 1)
    throw Error(ErrorId::ReductionUnsupported,
                "sums of " + std::string(dtypeName(dtype)) +
                    " cannot be divided; reduce in a floating-point type");
  if (combination.reduction == Reduction::avg) {
    if (combination.pre == 1)
      return {element, nccl::RedOp::avg};
    return {element, nccl::RedOp::sum, combination.pre, double(ranks)};
  }
  return {element, nccl::RedOp::sum, combination.pre, combination.post};
}

template <typename T>
static std::array<std::byte, 8> bytesOf(T value) {
  std::array<std::byte, 8> bytes{};
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

std::array<std::byte, 8> fsdp::encodeScalar(double factor,
                                            nccl::DataType type) {
  switch (type) {
  case nccl::DataType::float32:
    return bytesOf(static_cast<float>(factor));
  case nccl::DataType::float64:
    return bytesOf(factor);
  case nccl::DataType::float16:
    return bytesOf(c10::Half(static_cast<float>(factor)));
  case nccl::DataType::bfloat16:
    return bytesOf(c10::BFloat16(static_cast<float>(factor)));
  default:
    throw std::logic_error("only sums of floating-point numbers are divided");
  }
}

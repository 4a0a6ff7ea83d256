//===- DType.h - Element types of a plan ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PLAN_DTYPE_H
#define FSDP_PLAN_DTYPE_H

#include "plan/plan_generated.h"

#include <cstddef>
#include <iterator>
#include <optional>
#include <string_view>

namespace fsdp {

struct DTypeInfo {
  std::string_view name; ///< as plans, reports and errors print it
  size_t bytes;
};

inline constexpr DTypeInfo kDTypes[] = {
#define FSDP_ELEMENT_TYPE(ENUMERATOR, NAME, BYTES, TORCH, PYTHON, NUMBER,      \
                          MLIR, MLIRTEXT, SAFETENSORS)                         \
  {NAME, BYTES},
#include "support/ElementTypes.def"
};

inline constexpr plan::DType kDTypesInOrder[] = {
#define FSDP_ELEMENT_TYPE(ENUMERATOR, NAME, BYTES, TORCH, PYTHON, NUMBER,      \
                          MLIR, MLIRTEXT, SAFETENSORS)                         \
  plan::DType::ENUMERATOR,
#include "support/ElementTypes.def"
};
static_assert(
    [] {
      size_t number = 0;
      for (plan::DType dtype : kDTypesInOrder)
        if (static_cast<size_t>(dtype) != number++)
          return false;
      return number == static_cast<size_t>(plan::DType::MAX) + 1;
    }(),
    "the table of element types has the artifact's, in their order");

/// Of a number that plan.fbs does not name: "?".
inline DTypeInfo getDTypeInfo(plan::DType dtype) {
  auto number = static_cast<size_t>(dtype);
  return number < std::size(kDTypes) ? kDTypes[number] : DTypeInfo{"?", 0};
}

inline std::string_view dtypeName(plan::DType dtype) {
  return getDTypeInfo(dtype).name;
}

inline size_t dtypeBytes(plan::DType dtype) {
  return getDTypeInfo(dtype).bytes;
}

/// Whether a sum of elements of `dtype` that travel may be one of `result`: of
/// 16-bit floats, which are summed in f32 anyway, and of e4m3, which has sums
/// in no other type.
inline bool canWiden(plan::DType dtype, plan::DType result) {
  return (dtype == plan::DType::bf16 || dtype == plan::DType::f16 ||
          dtype == plan::DType::f8e4m3fn) &&
         result == plan::DType::f32;
}

/// Whether it is one that optimizers and matmuls compute in.
inline bool isFloat(plan::DType dtype) {
  return dtype == plan::DType::f32 || dtype == plan::DType::f64 ||
         dtype == plan::DType::f16 || dtype == plan::DType::bf16;
}

/// The opposite of `dtypeName`; none for a name that no dtype has.
inline std::optional<plan::DType> findDType(std::string_view name) {
  for (plan::DType dtype : plan::EnumValuesDType())
    if (dtypeName(dtype) == name)
      return dtype;
  return std::nullopt;
}

} // namespace fsdp

#endif // FSDP_PLAN_DTYPE_H

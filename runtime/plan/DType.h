//===- DType.h - Element types of a plan ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_PLAN_DTYPE_H
#define FSDP_RUNTIME_PLAN_DTYPE_H

#include "runtime/plan/plan_generated.h"

#include <cstddef>
#include <optional>
#include <string_view>

namespace fsdp {

struct DTypeInfo {
  std::string_view name; ///< as plans, reports and errors print it
  size_t bytes;
};

/// `dtype` is one that plan.fbs names.
inline DTypeInfo getDTypeInfo(plan::DType dtype) {
  switch (dtype) {
  case plan::DType::f32:
    return {"f32", 4};
  case plan::DType::f64:
    return {"f64", 8};
  case plan::DType::f16:
    return {"f16", 2};
  case plan::DType::bf16:
    return {"bf16", 2};
  case plan::DType::i64:
    return {"i64", 8};
  case plan::DType::i32:
    return {"i32", 4};
  case plan::DType::i16:
    return {"i16", 2};
  case plan::DType::i8:
    return {"i8", 1};
  case plan::DType::u8:
    return {"u8", 1};
  case plan::DType::bool_:
    return {"bool", 1};
  case plan::DType::c64:
    return {"c64", 8};
  case plan::DType::c128:
    return {"c128", 16};
  case plan::DType::u16:
    return {"u16", 2};
  case plan::DType::u32:
    return {"u32", 4};
  case plan::DType::u64:
    return {"u64", 8};
  case plan::DType::f8e4m3fn:
    return {"f8e4m3fn", 1};
  case plan::DType::f8e5m2:
    return {"f8e5m2", 1};
  }
  return {"?", 0};
}

inline std::string_view dtypeName(plan::DType dtype) {
  return getDTypeInfo(dtype).name;
}

inline size_t dtypeBytes(plan::DType dtype) {
  return getDTypeInfo(dtype).bytes;
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

#endif // FSDP_RUNTIME_PLAN_DTYPE_H

//===- DTypes.cpp - Element types of plan and LibTorch --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/DTypes.h"

#include "runtime/support/Error.h"

using namespace fsdp;

c10::ScalarType fsdp::toScalarType(plan::DType dtype) {
  switch (dtype) {
  case plan::DType::f32:
    return c10::ScalarType::Float;
  case plan::DType::f64:
    return c10::ScalarType::Double;
  case plan::DType::f16:
    return c10::ScalarType::Half;
  case plan::DType::bf16:
    return c10::ScalarType::BFloat16;
  case plan::DType::i64:
    return c10::ScalarType::Long;
  case plan::DType::i32:
    return c10::ScalarType::Int;
  case plan::DType::i16:
    return c10::ScalarType::Short;
  case plan::DType::i8:
    return c10::ScalarType::Char;
  case plan::DType::u8:
    return c10::ScalarType::Byte;
  case plan::DType::bool_:
    return c10::ScalarType::Bool;
  case plan::DType::c64:
    return c10::ScalarType::ComplexFloat;
  case plan::DType::c128:
    return c10::ScalarType::ComplexDouble;
  case plan::DType::u16:
    return c10::ScalarType::UInt16;
  case plan::DType::u32:
    return c10::ScalarType::UInt32;
  case plan::DType::u64:
    return c10::ScalarType::UInt64;
  case plan::DType::f8e4m3fn:
    return c10::ScalarType::Float8_e4m3fn;
  case plan::DType::f8e5m2:
    return c10::ScalarType::Float8_e5m2;
  }
  throw Error(ErrorId::ArtifactCorrupted, "the plan has an unknown dtype");
}

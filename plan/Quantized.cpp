//===- Quantized.cpp - States of blocks of codes --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Quantized.h"

#include "plan/StateParts.h"

using namespace fsdp;

plan::DType fsdp::modelDType(const plan::StateT &state) {
  return state.quantized    ? state.quantized->dtype
         : state.is_widened ? state.model_dtype
                            : state.dtype;
}

std::vector<int64_t> fsdp::modelShape(const plan::PlanT &plan,
                                      const plan::StateT &state) {
  return state.quantized ? state.quantized->shape : wholeShape(plan, state);
}

bool fsdp::isQuantizable(plan::DType dtype) {
  return dtype == plan::DType::f32 || dtype == plan::DType::bf16 ||
         dtype == plan::DType::f16;
}

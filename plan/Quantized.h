//===- Quantized.h - States of blocks of codes ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A quantized state holds blocks of codes of a tensor of the model. What files
// and exports have of it is that tensor; what checkpoints have is the blocks.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLAN_QUANTIZED_H
#define FSDP_PLAN_QUANTIZED_H

#include "plan/plan_generated.h"
#include "support/QuantizedBlocks.h"

#include <cstdint>
#include <vector>

namespace fsdp {

inline BlockKind toBlockKind(plan::QuantizedKind kind) {
  return static_cast<BlockKind>(kind);
}

/// Element type of the model's tensor.
plan::DType modelDType(const plan::StateT &state);

/// Shape of the model's tensor: `wholeShape`, unless it is quantized.
std::vector<int64_t> modelShape(const plan::PlanT &plan,
                                const plan::StateT &state);

/// The shape of the blocks of a tensor of so many elements.
inline std::vector<int64_t> blocksShape(BlockKind kind, uint64_t elements) {
  return {countBlocks(static_cast<int64_t>(elements)), getBlockBytes(kind)};
}

/// Whether `value` may be what blocks stand for: f32, bf16 or f16.
bool isQuantizable(plan::DType dtype);

} // namespace fsdp

#endif // FSDP_PLAN_QUANTIZED_H

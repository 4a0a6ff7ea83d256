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
#include "support/BlockForm.h"

#include <cstdint>
#include <vector>

namespace fsdp {

/// Of a plan::QuantizedT or plan::DequantizeT; a plan that was verified has
/// valid ones.
template <typename T>
BlockForm toBlockForm(const T &told) {
  return {static_cast<BlockKind>(told.kind), int64_t(told.block_size),
          told.double_quant};
}

/// Element type of the model's tensor.
plan::DType modelDType(const plan::StateT &state);

/// Shape of the model's tensor: `wholeShape`, unless it is quantized.
std::vector<int64_t> modelShape(const plan::PlanT &plan,
                                const plan::StateT &state);

/// The shape of the blocks of a tensor of so many elements.
inline std::vector<int64_t> blocksShape(const BlockForm &form,
                                        uint64_t elements) {
  return {form.countRows(static_cast<int64_t>(elements)), form.getRowBytes()};
}

/// Whether so many bytes of a file may be codes of 4 bits of so many elements,
/// whose tensor there may be of wider ones.
constexpr bool canBePacked(uint64_t elements, uint64_t bytes) {
  uint64_t needed = elements / 2 + elements % 2;
  return bytes >= needed && bytes - needed < 8;
}

/// Whether `value` may be what blocks stand for: f32, bf16 or f16.
bool isQuantizable(plan::DType dtype);

} // namespace fsdp

#endif // FSDP_PLAN_QUANTIZED_H

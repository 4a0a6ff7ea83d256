//===- Dequantize.cpp - Numbers that blocks of codes stand for ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/ProgramCheck.h"
#include "plan/ProgramText.h"
#include "plan/Quantized.h"
#include "plan/Shape.h"

using namespace fsdp;

void fsdp::listOperands(const plan::DequantizeT &op, Operands &operands) {
  operands.add(Access::read, op.input);
  operands.add(Access::define, op.output);
}

void fsdp::verify(const plan::DequantizeT &op, const ProgramCheck &check) {
  check.enumerator(op.kind <= plan::QuantizedKind::MAX);
  BlockForm form = toBlockForm(op);
  if (!form.isValid())
    check.refuse("has blocks of " + std::to_string(op.block_size) +
                 " elements, which there are none of");
  const plan::ValueT &output = check.contiguous(op.output);
  if (!isQuantizable(output.dtype) || !check.isPlace(op.output))
    check.refuse("dequantizes to " + check.name(op.output) +
                 ", which holds no f32 and no halves");
  const plan::ValueT &input = check.contiguous(op.input);
  uint64_t elements = *checkedElements(output.shape);
  if (input.dtype != plan::DType::u8 || elements == 0 ||
      input.shape != blocksShape(form, elements))
    check.refuse("dequantizes " + check.name(op.input) +
                 ", which has not the blocks of " + check.name(op.output));
}

InstructionText fsdp::print(const plan::DequantizeT &op,
                            const ProgramText &text) {
  return {text.definition(op.output), "dequantize",
          " " + text.use(op.input) + " " + getName(toBlockForm(op))};
}

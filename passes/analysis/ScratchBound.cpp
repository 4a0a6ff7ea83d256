//===- ScratchBound.cpp - Temporaries of kernels --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/ScratchBound.h"

#include "ir/aten/Aten.h"
#include "passes/analysis/Float8.h"
#include "passes/analysis/Programs.h"

using namespace mlir;
using namespace fsdp;

namespace {

/// What the heap makes of an allocation.
int64_t allocated(int64_t bytes) {
  constexpr int64_t kRounding = 64;
  return bytes == 0 ? 0 : bytes + kRounding;
}

int64_t bytesOf(TypeRange types, bool onlyStrided = false) {
  int64_t bytes = 0;
  for (Type type : types)
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      if (!onlyStrided || !aten::isContiguous(tensor))
        bytes += allocated(tensor.getNumElements() *
                           aten::getElementBytes(tensor.getElementType()));
  return bytes;
}

/// A number, a tensor without dims, is converted in passing.
int64_t convertedBytes(TypeRange operands) {
  int64_t widest = 0;
  Type common;
  for (Type type : operands) {
    auto tensor = cast<RankedTensorType>(type);
    int64_t bytes = aten::getElementBytes(tensor.getElementType());
    if (tensor.getRank() != 0 && bytes > widest) {
      widest = bytes;
      common = tensor.getElementType();
    }
  }
  int64_t converted = 0;
  for (Type type : operands) {
    auto tensor = cast<RankedTensorType>(type);
    if (tensor.getRank() != 0 && tensor.getElementType() != common)
      converted += allocated(tensor.getNumElements() * widest);
  }
  return converted;
}

bool isHalf(Type type) {
  Type element = getElementTypeOrSelf(type);
  return element.isF16() || element.isBF16();
}

/// Each tensor in f32, and scaled: without products of eight bits that is what
/// LibTorch multiplies.
int64_t scaledBytes(TypeRange types) {
  int64_t bytes = 0;
  for (Type type : types)
    if (auto tensor = cast<RankedTensorType>(type); tensor.getRank() != 0)
      bytes += 2 * allocated(tensor.getNumElements() *
                             static_cast<int64_t>(sizeof(float)));
  return bytes;
}

int64_t boundOf(Operation *op) {
  const aten::Schema *schema = aten::lookupSchema(op);
  // The project's own ops work in place, or in the communicator's buffers.
  if (!schema)
    return 0;
  if (llvm::any_of(op->getResults(), [](OpResult result) {
        return aten::getViewSource(result) != nullptr;
      }))
    return 0;
  int64_t all = bytesOf(op->getOperandTypes()) + bytesOf(op->getResultTypes());
  int64_t strided = bytesOf(op->getOperandTypes(), /*onlyStrided=*/true);
  bool hasHalf = llvm::any_of(op->getOperandTypes(), isHalf);
  if (schema->is(aten::ScratchReorders))
    return 2 * all;
  if (schema->is(aten::ScratchPromotes))
    return convertedBytes(op->getOperandTypes());
  if (schema->is(aten::ScratchWidens) && hasHalf)
    return 2 * all;
  if (schema->is(aten::ScratchWidens) &&
      llvm::any_of(op->getOperandTypes(), [](Type type) {
        return isFloat8(getElementTypeOrSelf(type));
      }))
    return scaledBytes(op->getOperandTypes()) +
           scaledBytes(op->getResultTypes());
  if (schema->is(aten::ScratchStrided))
    return strided;
  bool isDirect = schema->is(aten::ScratchNone) ||
                  schema->is(aten::ScratchWidens) ||
                  schema->is(aten::Pointwise);
  return isDirect ? 0 : all;
}

} // namespace

std::optional<int64_t> fsdp::getScratchBound(ModuleOp module) {
  if (getDevice(module) != "cpu")
    return std::nullopt;
  int64_t bound = 0;
  for (func::FuncOp program : getPrograms(module))
    for (Operation &op : program.getBody().front())
      bound = std::max(bound, boundOf(&op));
  return bound;
}

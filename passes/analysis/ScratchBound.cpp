//===- ScratchBound.cpp - Temporaries of kernels --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/ScratchBound.h"

#include "ir/aten/Aten.h"
#include "passes/analysis/CudaScratch.h"
#include "passes/analysis/CudaSyncs.h"
#include "passes/analysis/KernelSums.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/Targets.h"
#include "plan/Kernels.h"

#include <set>

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

/// What a product of matrices in f32 packs beside LibTorch's allocator, by one
/// thread: a panel of the wider operand and a block of the other (oneDNN,
/// cpu/x64/gemm/gemm_info.cpp, whose blocks are the largest of all kinds of
/// processors). MKL packs less. Small products are packed in what a library
/// holds anyway (runtime/exec/Matmul.cpp). glibc's memalign leaves small pieces
/// around each block in its thread's cache, so the next one is put somewhere
/// else (docs/Rationale/Runtime.md): so many places were seen.
int64_t packedBytes(Operation *op, const aten::Schema *schema) {
  constexpr int64_t kLeastMultiplications = int64_t(1) << 24;
  constexpr int64_t kPlaces = 5;
  constexpr int64_t kPanel = 10000, kBlock = 384, kRest = int64_t(128) << 10;
  if (!schema || !schema->is(aten::ScratchWidens) || op->getNumResults() != 1 ||
      op->getNumOperands() < 2)
    return 0;
  // mm(a, b), addmm(bias, a, b), and the same of batches, one after the other
  bool hasAddend = op->getNumOperands() > 2;
  auto first = dyn_cast<RankedTensorType>(op->getOperand(hasAddend).getType());
  auto result = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!first || !result || first.getRank() < 2 || result.getRank() < 2 ||
      !first.getElementType().isF32())
    return 0;
  int64_t rows = result.getDimSize(result.getRank() - 2);
  int64_t columns = result.getDimSize(result.getRank() - 1);
  int64_t depth = first.getDimSize(first.getRank() - 1);
  if (rows * columns * depth < kLeastMultiplications)
    return 0;
  // A sum that is to lie where the addend does is made elsewhere by oneDNN,
  // whose first operand's rows lie one behind the other.
  int64_t sum = 0;
  if (hasAddend && op->getOperand(0).getType() == result &&
      aten::isContiguous(first))
    sum = bytesOf(op->getResultTypes());
  int64_t panel = std::min(std::max(rows, columns), kPanel);
  int64_t block = std::min(std::min(rows, columns), kBlock);
  return sum + kPlaces * (static_cast<int64_t>(sizeof(float)) *
                              std::min(depth, kBlock) * (panel + block) +
                          kRest);
}

int64_t boundOf(Operation *op, const aten::Schema *schema) {
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

static ScratchBound boundOnCpu(ModuleOp module) {
  int64_t temporaries = 0, packed = 0;
  for (func::FuncOp program : getPrograms(module))
    for (Operation &op : program.getBody().front()) {
      const aten::Schema *schema = aten::lookupSchema(&op);
      temporaries =
          std::max(temporaries,
                   boundOf(&op, schema) + getKernelScratch(&op, kKernelParts));
      packed = std::max(packed, packedBytes(&op, schema));
    }
  return {temporaries + packed, {}};
}

static ScratchBound boundOnCuda(ModuleOp module, const CudaUse &use) {
  int64_t temporaries = 0;
  std::set<std::string> unknown;
  for (func::FuncOp program : getPrograms(module))
    for (Operation &op : program.getBody().front()) {
      KernelScratch scratch = getCudaScratch(&op, use);
      temporaries = std::max(
          temporaries, scratch.bytes + getKernelScratch(&op, kMostPartialRows));
      if (!scratch.isBounded)
        unknown.insert(op.getName().getStringRef().str());
    }
  return {temporaries + getCudaWorkspaces(use),
          {unknown.begin(), unknown.end()}};
}

std::optional<ScratchBound> fsdp::getScratchBound(ModuleOp module) {
  switch (getTarget(module).kernels) {
  case KernelTable::None:
    return std::nullopt;
  case KernelTable::Host:
    return boundOnCpu(module);
  case KernelTable::Cuda:
    if (std::optional<int> capability = getCudaCapability(module))
      return boundOnCuda(
          module,
          {*capability, getSetting<ArithmeticAttr>(module).getDeterministic()});
    return std::nullopt;
  }
  llvm_unreachable("all tables are asked");
}

//===- CudaSyncs.cpp - What keeps a program from a CUDA graph -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Facts.def says which operators always do, and which have a rule here.
//
//===----------------------------------------------------------------------===//

#include "passes/analysis/CudaSyncs.h"

#include "passes/analysis/OperatorRules.h"

#include "ir/aten/Aten.h"
#include "ir/aten/Matchers.h"
#include "ir/fsdp/Fsdp.h"

#include <cmath>

using namespace mlir;
using namespace fsdp;

std::optional<int> fsdp::getCudaCapability(ModuleOp module) {
  StringRef device = getDevice(module);
  int capability = 0;
  if (!device.consume_front("cuda:sm_") || device.getAsInteger(10, capability))
    return std::nullopt;
  return capability;
}

namespace {

/// Of a tensor argument of one operator.
Value getTensor(Operation *op, StringRef name) {
  for (const aten::BoundTensors &bound : aten::getTensorArguments(op))
    if (bound.argument->name == name && !bound.none &&
        bound.tensors.size() == 1)
      return bound.tensors[0];
  return {};
}

int64_t countElements(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getNumElements();
}

/// A number of the program lies on the host.
bool isOnGpu(Value value) {
  auto constant = value ? value.getDefiningOp<ConstantOp>() : ConstantOp();
  return value && !(constant && constant.getWrapped());
}

/// Whether one of its indices is a mask, which is turned into indices.
bool hasMask(Operation *op) {
  for (const aten::BoundTensors &bound : aten::getTensorArguments(op))
    if (bound.argument->name == "indices")
      for (Value index : bound.tensors)
        if (index && aten::isMask(index.getType()))
          return true;
  return false;
}

bool isTrue(Operation *op, StringRef argument) {
  auto flag = dyn_cast_or_null<BoolAttr>(aten::getStaticArgument(op, argument));
  return flag && flag.getValue();
}

constexpr StringRef kReads = "the host reads a number that the GPU computed";
constexpr StringRef kCounts = "the host counts what a mask selects";
constexpr StringRef kSizes = "the size of its result is a number that the GPU "
                             "computed";
constexpr StringRef kSolves =
    "the host takes part in what cuSOLVER computes, or checks it";

/// A mask that selects where one number of the host is written becomes none
/// (TensorAdvancedIndexing.cpp, canDispatchToMaskedFill).
StringRef readsMask(Operation *op, int) {
  if (!hasMask(op))
    return "";
  Value values = getTensor(op, "values");
  bool isNumber = values && !isOnGpu(values) && !isTrue(op, "accumulate");
  return isNumber ? "" : kCounts;
}

/// It takes the one number of a tensor as an argument of its kernel.
StringRef readsValue(Operation *op, int) {
  return isOnGpu(getTensor(op, "value")) ? kReads : "";
}

StringRef readsEnds(Operation *op, int) {
  return isOnGpu(getTensor(op, "start")) || isOnGpu(getTensor(op, "end"))
             ? kReads
             : "";
}

StringRef checksErrors(Operation *op, int) {
  return isTrue(op, "check_errors") ? kSolves : "";
}

/// Only products of bf16 on these GPUs are made by one kernel, and batches of
/// matrices by another (GroupedBlas.cpp).
StringRef readsOffsets(Operation *op, int capability) {
  bool isFused = capability / 10 == 9 || capability / 10 == 10;
  for (Type type : op->getOperandTypes())
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      isFused &= tensor.getElementType().isBF16() ||
                 tensor.getElementType().isInteger();
  isFused &= getElementTypeOrSelf(op->getResult(0).getType()).isBF16();
  return !isFused && getTensor(op, "offs") ? "the host reads where the groups "
                                             "end"
                                           : "";
}

StringRef readsRange(Operation *op, int) {
  std::optional<double> min = aten::getStaticNumber(op, "min");
  std::optional<double> max = aten::getStaticNumber(op, "max");
  return min == max ? "the host reads the least and the greatest element" : "";
}

/// Which of both ways it takes: TensorCompare.cpp.
StringRef sortsElements(Operation *op, int) {
  Value elements = getTensor(op, "elements");
  Value tests = getTensor(op, "test_elements");
  double all = elements ? static_cast<double>(countElements(elements)) : 1;
  double few = 10 * std::pow(all, 0.145);
  return tests && static_cast<double>(countElements(tests)) >= few &&
                 !isTrue(op, "assume_unique")
             ? kSizes
             : "";
}

/// Rows that do not fit into a block are sorted by a library that waits
/// (TensorModeKernel.cpp).
StringRef sortsRows(Operation *op, int) {
  constexpr int64_t kBlock = 2048;
  auto type = cast<RankedTensorType>(op->getOperand(0).getType());
  int64_t rows = std::max<int64_t>(countElements(op->getResult(0)), 1);
  return type.getNumElements() / rows > kBlock ? kReads : "";
}

/// Of all elements it takes the one whose number it computed.
StringRef selectsMiddle(Operation *op, int) {
  return op->getNumResults() == 1 ? kReads : "";
}

StringRef sumsRepeats(Operation *op, int) {
  return aten::getStaticArgument(op, "output_size") ? "" : kSizes;
}

StringRef checksSorter(Operation *op, int) {
  return getTensor(op, "sorter") ? "the host checks the sorter" : "";
}

/// Offsets, which go before lengths, are taken as they are (SegmentReduce.cpp).
StringRef checksLengths(Operation *op, int) {
  return isTrue(op, "unsafe") || getTensor(op, "offsets")
             ? ""
             : "the host checks the lengths";
}

StringRef checksZeroPoint(Operation *op, int) {
  Value zero = getTensor(op, "zero_point");
  return zero && isa<IntegerType>(getElementTypeOrSelf(zero.getType()))
             ? "the host checks the zero points"
             : "";
}

using SyncRule = StringRef (*)(Operation *, int capability);

/// One for each operator with MaySyncOnCuda, in the order of their names.
constexpr std::pair<StringLiteral, SyncRule> kSyncRules[] = {
    {"_grouped_mm", readsOffsets},
    {"_index_put_impl", readsMask},
    {"_linalg_solve_ex", checksErrors},
    {"_unsafe_index", readsMask},
    {"_unsafe_index_put", readsMask},
    {"fake_quantize_per_channel_affine_cachemask", checksZeroPoint},
    {"histc", readsRange},
    {"index", readsMask},
    {"index_fill", readsValue},
    {"index_put", readsMask},
    {"isin", sortsElements},
    {"linalg_cholesky_ex", checksErrors},
    {"linalg_inv_ex", checksErrors},
    {"linalg_ldl_factor_ex", checksErrors},
    {"linalg_lu_factor_ex", checksErrors},
    {"linspace", readsEnds},
    {"logspace", readsEnds},
    {"masked_fill", readsValue},
    {"mode", sortsRows},
    {"nanmedian", selectsMiddle},
    {"repeat_interleave", sumsRepeats},
    {"searchsorted", checksSorter},
    {"segment_reduce", checksLengths},
};

SyncRule findSyncRule(StringRef name) {
  return findOperatorRule(kSyncRules, name);
}

} // namespace

bool fsdp::hasCudaSyncRule(StringRef name) {
  return findSyncRule(name) != nullptr;
}

StringRef fsdp::getCudaSync(Operation *op, int capability) {
  const aten::Schema *schema = aten::lookupSchema(op);
  if (!schema)
    return "";
  if (schema->is(aten::SolvesOnCuda))
    return kSolves;
  if (schema->is(aten::MaySyncOnCuda))
    return findSyncRule(schema->name)(op, capability);
  if (schema->is(aten::SyncsOnCuda))
    return kReads;
  if (schema->is(aten::DataDependentOutput) ||
      schema->is(aten::DynamicOutputShape))
    return kSizes;
  return "";
}

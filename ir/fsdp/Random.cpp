//===- Random.cpp - Constraints of draws ----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Layout.h"
#include "ir/fsdp/Fsdp.h"
#include "support/Distributions.h"

using namespace mlir;
using namespace fsdp;

static_assert(kDistributions.size() == getMaxEnumValForDistribution() + 1,
              "one row for each distribution");

/// Whether the elements lie one behind the other, in any order of the dims.
static bool isDense(RankedTensorType type) {
  return aten::getStorageBytes(type) ==
         type.getNumElements() * aten::getElementBytes(type.getElementType());
}

SmallVector<double> DrawOp::getNumberValues() {
  SmallVector<double> values;
  if (ArrayAttr numbers = getNumbersAttr())
    for (auto number : numbers.getAsRange<FloatAttr>())
      values.push_back(number.getValueAsDouble());
  return values;
}

LogicalResult DrawOp::verify() {
  // DR-1.
  auto state = cast<RankedTensorType>(getRandom().getType());
  auto type = cast<RankedTensorType>(getResult().getType());
  if (state.getShape() != ArrayRef<int64_t>{2} ||
      !state.getElementType().isSignlessInteger(64))
    return emitOpError("expects a state (seed, offset) of type tensor<2xi64>, "
                       "found ")
           << state;
  // DR-2.
  auto index = static_cast<size_t>(getDistribution());
  ArrayRef<int64_t> range = getRange().value_or(ArrayRef<int64_t>());
  if (std::string problem = describeDrawProblem(index, getNumberValues(),
                                                getGiven().size(), range);
      !problem.empty())
    return emitOpError(stringifyDistribution(getDistribution()))
           << " " << problem;
  // DR-3.
  if (int64_t site = getSite(); site < 0 || site > UINT32_MAX)
    return emitOpError("expects a site from 0 to 4294967295, found ") << site;
  // DR-4.
  Type element = type.getElementType();
  if (!isa<Float16Type, BFloat16Type, Float32Type, Float64Type>(element) &&
      !(kDistributions[index].isInteger && isa<IntegerType>(element)))
    return emitOpError("expects elements that ")
           << stringifyDistribution(getDistribution()) << " draws, found "
           << element;
  // DR-5.
  for (Value given : getGiven())
    if (given.getType() != type || !aten::isContiguous(type))
      return emitOpError("expects parameters and result of one contiguous "
                         "type, found ")
             << given.getType() << " and " << type;
  // DR-6.
  if (!isDense(type))
    return emitOpError("expects a result that fills its storage, found ")
           << type;
  return success();
}

//===- CutsPointwise.cpp - Cuts of operators by element -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/partition/Cuts.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace fsdp;

/// What partial operands give: kWholePlace if nothing that is known.
static Place getLinearResult(StringRef name) {
  return llvm::StringSwitch<Place>(name)
      .Cases({"aten.add.Tensor", "aten.sub.Tensor", "aten.neg",
              "aten.mul.Scalar", "aten.div.Scalar", "aten.clone"},
             kPartialPlace)
      .Cases({"aten.zeros_like", "aten.ones_like", "aten.full_like",
              "aten.empty_like"},
             kAnyPlace)
      .Default(kWholePlace);
}

// Dims are aligned at the end; an operand's dim of size 1 is whole everywhere.
void cuts::addPointwise(const WholeOp &op, std::vector<Cut> &cuts) {
  RankedTensorType result = op.results.front();
  if (!result)
    return;
  for (RankedTensorType other : op.results)
    if (!other || other.getShape() != result.getShape())
      return;
  for (int64_t dim = 0; dim < result.getRank(); ++dim) {
    if (result.getDimSize(dim) == 1)
      continue;
    Cut cut = whole(op);
    bool fits = true;
    for (auto [place, type] : llvm::zip_equal(cut.operands, op.operands)) {
      int64_t own = dim - (result.getRank() - type.getRank());
      if (own < 0 || type.getDimSize(own) == 1)
        continue;
      fits &= type.getDimSize(own) == result.getDimSize(dim);
      place = own;
    }
    cut.results.assign(op.results.size(), dim);
    if (fits)
      cuts.push_back(cut);
  }
  Place linear = getLinearResult(op.getName());
  if (linear == kPartialPlace) {
    addPartial(op, cuts);
  } else if (linear == kAnyPlace) {
    Cut cut = whole(op);
    cut.operands.assign(op.operands.size(), kPartialPlace);
    cuts.push_back(cut);
  }
}

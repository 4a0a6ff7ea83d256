//===- Marks.cpp - What an op that is computed in parts was ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/Marks.h"

#include "ir/aten/Aten.h"
#include "ir/aten/OpModel.h"

using namespace mlir;
using namespace fsdp;

static constexpr llvm::StringLiteral kTypes = "types", kStatics = "statics";

RankedTensorType fsdp::getWholeResultType(OpResult result) {
  auto whole = result.getOwner()->getAttrOfType<DictionaryAttr>(kWholeAttr);
  auto types = whole ? whole.getAs<ArrayAttr>(kTypes) : ArrayAttr();
  Type type = types ? cast<TypeAttr>(types[result.getResultNumber()]).getValue()
                    : result.getType();
  return dyn_cast<RankedTensorType>(type);
}

DictionaryAttr fsdp::getWholeProperty(Operation *op) {
  if (!aten::lookupSchema(op))
    return {};
  DictionaryAttr own = aten::getProperty(op);
  auto whole = op->getAttrOfType<DictionaryAttr>(kWholeAttr);
  auto statics = whole ? whole.getAs<DictionaryAttr>(kStatics) : nullptr;
  return statics ? statics : own;
}

PlacedAttr fsdp::getPlaced(OpResult result, GroupAttr group) {
  auto all = result.getOwner()->getAttrOfType<ArrayAttr>(kPlacedAttr);
  if (all)
    for (auto placed : cast<ArrayAttr>(all[result.getResultNumber()])
                           .getAsRange<PlacedAttr>())
      if (placed.getGroup() == group)
        return placed;
  return PlacedAttr::get(result.getContext(), PlacedKind::Whole, 0, group);
}

void fsdp::markPart(Operation *part, Operation *whole,
                    ArrayRef<PlacedAttr> placed) {
  Builder builder(part->getContext());
  auto before = whole->getAttrOfType<ArrayAttr>(kPlacedAttr);
  SmallVector<Attribute> all;
  for (auto [i, each] : llvm::enumerate(placed)) {
    SmallVector<Attribute> own;
    if (before)
      llvm::append_range(own, cast<ArrayAttr>(before[i]));
    if (!each.isWhole())
      own.push_back(each);
    all.push_back(builder.getArrayAttr(own));
  }
  part->setAttr(kPlacedAttr, builder.getArrayAttr(all));
  NamedAttrList was;
  if (auto told = whole->getAttrOfType<DictionaryAttr>(kWholeAttr))
    was = NamedAttrList(told);
  if (!was.get(kTypes) && part->getResultTypes() != whole->getResultTypes())
    was.set(kTypes,
            builder.getTypeArrayAttr(llvm::to_vector(whole->getResultTypes())));
  if (!was.get(kStatics) && aten::lookupSchema(whole) &&
      aten::getProperty(whole) != aten::getProperty(part))
    was.set(kStatics, aten::getProperty(whole));
  if (!was.empty())
    part->setAttr(kWholeAttr, was.getDictionary(part->getContext()));
}

void fsdp::removeMarks(Operation *op) {
  op->removeAttr(kPlacedAttr);
  op->removeAttr(kWholeAttr);
}

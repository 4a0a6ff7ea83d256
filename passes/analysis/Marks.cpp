//===- Marks.cpp - What an op that is computed in parts was ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/Marks.h"

#include "ir/aten/Aten.h"
#include "ir/aten/OpModel.h"

using namespace mlir;
using namespace fsdp;

static constexpr llvm::StringLiteral kTypes = "types", kStatics = "statics";

static RankedTensorType getMarkedType(OpResult result, StringRef mark) {
  auto whole = result.getOwner()->getAttrOfType<DictionaryAttr>(mark);
  auto types = whole ? whole.getAs<ArrayAttr>(kTypes) : ArrayAttr();
  Type type = types ? cast<TypeAttr>(types[result.getResultNumber()]).getValue()
                    : result.getType();
  return dyn_cast<RankedTensorType>(type);
}

static DictionaryAttr getOwnProperty(Operation *op) {
  return aten::lookupSchema(op)
             ? aten::getProperty(op)
             : dyn_cast_or_null<DictionaryAttr>(op->getPropertiesAsAttribute());
}

static DictionaryAttr getMarkedProperty(Operation *op, StringRef mark) {
  auto whole = op->getAttrOfType<DictionaryAttr>(mark);
  auto statics = whole ? whole.getAs<DictionaryAttr>(kStatics) : nullptr;
  return statics ? statics : getOwnProperty(op);
}

RankedTensorType fsdp::getWholeResultType(OpResult result) {
  return getMarkedType(result, kWholeAttr);
}

DictionaryAttr fsdp::getWholeProperty(Operation *op) {
  return aten::lookupSchema(op) ? getMarkedProperty(op, kWholeAttr)
                                : DictionaryAttr();
}

RankedTensorType fsdp::getTogetherType(OpResult result) {
  return getMarkedType(result, kTogetherAttr);
}

DictionaryAttr fsdp::getTogetherProperty(Operation *op) {
  return getMarkedProperty(op, kTogetherAttr);
}

PlacedAttr fsdp::getPlaced(OpResult result, GroupAttr group) {
  auto all = result.getOwner()->getAttrOfType<ArrayAttr>(kPlacedAttr);
  if (all)
    for (auto placed : cast<ArrayAttr>(all[result.getResultNumber()])
                           .getAsRange<PlacedAttr>())
      if (placed.getGroup() == group)
        return placed;
  return PlacedAttr::get(result.getContext(), PlacedKind::Whole, 0, PartsAttr(),
                         group);
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
  auto mark = [&](StringRef name, NamedAttrList was) {
    if (!was.get(kTypes) && part->getResultTypes() != whole->getResultTypes())
      was.set(kTypes, builder.getTypeArrayAttr(
                          llvm::to_vector(whole->getResultTypes())));
    if (DictionaryAttr own = getOwnProperty(whole);
        !was.get(kStatics) && own && own != getOwnProperty(part))
      was.set(kStatics, own);
    if (!was.empty())
      part->setAttr(name, was.getDictionary(part->getContext()));
  };
  auto told = whole->getAttrOfType<DictionaryAttr>(kWholeAttr);
  mark(kWholeAttr, told ? NamedAttrList(told) : NamedAttrList());
  mark(kTogetherAttr, {});
}

void fsdp::forgetTogether(Operation *op) { op->removeAttr(kTogetherAttr); }

void fsdp::removeMarks(Operation *op) {
  for (StringRef name : {kPlacedAttr, kWholeAttr, kTogetherAttr})
    op->removeAttr(name);
}

//===- LowPrecision.cpp - What passes of narrow types share ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/shard/LowPrecision.h"

#include "ir/fsdp/Fsdp.h"

#include "mlir/IR/Builders.h"

using namespace fsdp;
using namespace mlir;

static std::string print(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

void CastList::add(StringRef name, Type from, Type to) {
  Row &row = rows[{name.str(), print(from), print(to)}];
  row.from = from;
  row.to = to;
  ++row.count;
}

void CastList::appendTo(ModuleOp module, StringRef cause) const {
  if (rows.empty())
    return;
  SmallVector<Attribute> all;
  if (auto known = module->getAttrOfType<ArrayAttr>(kCastsAttr))
    llvm::append_range(all, known);
  Builder builder(module.getContext());
  for (const auto &[key, row] : rows)
    all.push_back(builder.getDictionaryAttr({
        builder.getNamedAttr("cause", builder.getStringAttr(cause)),
        builder.getNamedAttr("name", builder.getStringAttr(std::get<0>(key))),
        builder.getNamedAttr("from", TypeAttr::get(row.from)),
        builder.getNamedAttr("to", TypeAttr::get(row.to)),
        builder.getNamedAttr("count", builder.getI64IntegerAttr(row.count)),
    }));
  module->setAttr(kCastsAttr, builder.getArrayAttr(all));
}

//===- NormRows.cpp - What became of written norms, as rows ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/module/NormRows.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

ArrayAttr fsdp::capture::countRows(Builder &builder,
                                   ArrayRef<DictionaryAttr> rows) {
  llvm::MapVector<DictionaryAttr, int64_t> counts;
  for (DictionaryAttr row : rows)
    ++counts[row];
  SmallVector<Attribute> counted;
  for (auto [row, count] : counts) {
    NamedAttrList entries(row);
    entries.append("count", builder.getI64IntegerAttr(count));
    counted.push_back(entries.getDictionary(builder.getContext()));
  }
  return builder.getArrayAttr(counted);
}

ArrayAttr fsdp::capture::describeNorms(Builder &builder,
                                       const std::vector<NotedNorm> &norms) {
  SmallVector<DictionaryAttr> rows;
  for (const auto &[location, why] : norms) {
    NamedAttrList row;
    row.append("module", builder.getStringAttr(location.module));
    if (!location.file.empty())
      row.append("source", builder.getStringAttr(location.file + ":" +
                                                 Twine(location.line)));
    if (!why.empty())
      row.append("why", builder.getStringAttr(why));
    rows.push_back(row.getDictionary(builder.getContext()));
  }
  return countRows(builder, rows);
}

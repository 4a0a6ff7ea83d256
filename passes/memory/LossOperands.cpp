//===- LossOperands.cpp - What the ops of a loss are given ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/memory/LossOperands.h"

using namespace mlir;
using namespace fsdp;

int64_t fsdp::getInteger(Operation *op, StringRef name, int64_t otherwise) {
  auto value = dyn_cast_or_null<IntegerAttr>(aten::getStaticArgument(op, name));
  return value ? value.getInt() : otherwise;
}

SmallVector<int64_t> fsdp::getDims(Operation *op, StringRef name,
                                   int64_t rank) {
  SmallVector<int64_t> dims;
  Attribute told = aten::getStaticArgument(op, name);
  if (auto list = dyn_cast_or_null<ArrayAttr>(told))
    for (auto each : list.getAsRange<IntegerAttr>())
      dims.push_back(each.getInt());
  else if (auto one = dyn_cast_or_null<IntegerAttr>(told))
    dims.push_back(one.getInt());
  for (int64_t &dim : dims)
    dim += dim < 0 ? rank : 0;
  llvm::sort(dims);
  return dims;
}

std::optional<Attribute> fsdp::getFill(Operation *op) {
  if (!op || !aten::lookupSchema(op))
    return std::nullopt;
  Builder builder(op->getContext());
  StringRef name = getName(op);
  if (name == "aten.ones_like" || name == "aten.ones" ||
      name == "aten.new_ones")
    return builder.getI64IntegerAttr(1);
  if (name == "aten.zeros_like" || name == "aten.zeros" ||
      name == "aten.new_zeros")
    return builder.getI64IntegerAttr(0);
  if (name == "aten.full_like" || name == "aten.full" ||
      name == "aten.new_full")
    return aten::getStaticArgument(op, "fill_value");
  if (name == "aten.fill.Scalar")
    return aten::getStaticArgument(op, "value");
  return std::nullopt;
}

LossOperands::LossOperands(Operation *loss) {
  SmallVector<aten::BoundTensors> bound = aten::getTensorArguments(loss);
  auto get = [&](size_t i) {
    return i < bound.size() && !bound[i].tensors.empty()
               ? bound[i].tensors.front()
               : Value();
  };
  bool isForward = getName(loss) == "aten.nll_loss_forward";
  size_t first = isForward ? 0 : 1;
  scores = get(first);
  target = get(first + 1);
  weight = get(first + 2);
  if (isForward)
    return;
  upstream = get(0);
  total = get(4);
}

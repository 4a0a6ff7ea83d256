//===- LowPrecision.cpp - What passes of narrow types share ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/shard/LowPrecision.h"

#include "ir/fsdp/Fsdp.h"
#include "passes/analysis/Programs.h"

#include "mlir/IR/Builders.h"

#include <limits>

using namespace fsdp;
using namespace mlir;

LogicalResult fsdp::verifyOnWholeTensors(ModuleOp module, StringRef what,
                                         StringRef ofWholeTensors,
                                         StringRef onOtherDevices) {
  auto parallel = getSetting<ParallelAttr>(module);
  if (parallel.getTp() > 1 || parallel.getCp() > 1)
    return module.emitError("expected no ranks along 'tp' and 'cp' with ")
           << what << ", " << ofWholeTensors << "; found " << parallel.getTp()
           << " and " << parallel.getCp();
  if (getDevice(module) != "cpu")
    return module.emitError("expected ")
           << what << " on the CPU, found " << getDevice(module) << ", "
           << onOtherDevices;
  return success();
}

Value fsdp::makeGreatest(TensorOps &ops, Value tensor,
                         std::optional<int64_t> dim) {
  RankedTensorType type = getTensor(tensor);
  Builder &builder = ops.get();
  SmallVector<NamedAttribute> order{builder.getNamedAttr(
      "ord", builder.getF64FloatAttr(std::numeric_limits<double>::infinity()))};
  SmallVector<int64_t> shape;
  if (dim) {
    shape.assign(type.getShape().begin(), type.getShape().end());
    shape[*dim] = 1;
    order.push_back(ops.integers("dim", {*dim}));
    order.push_back(builder.getNamedAttr("keepdim", builder.getBoolAttr(true)));
  }
  if (!type.getElementType().isF32())
    order.push_back(ops.type(builder.getF32Type()));
  return ops.make("aten.linalg_vector_norm", {tensor}, order,
                  RankedTensorType::get(shape, builder.getF32Type()));
}

Value fsdp::makeScale(TensorOps &ops, Value greatest, Type element,
                      double least, bool isPowerOfTwo) {
  RankedTensorType scales = getTensor(greatest);
  Builder &builder = ops.get();
  Value divisor = ops.make(
      "aten.clamp_min", {greatest},
      builder.getNamedAttr("min", builder.getF64FloatAttr(least)), scales);
  auto number = RankedTensorType::get({}, builder.getF32Type());
  const llvm::fltSemantics &type = cast<FloatType>(element).getFloatSemantics();
  float largest = llvm::APFloat::getLargest(type).convertToFloat();
  Value limit =
      ConstantOp::create(ops.get(), ops.getLoc(), number,
                         DenseElementsAttr::get(number, largest), nullptr);
  Value scale = ops.make("aten.div.Tensor", {limit, divisor}, {}, scales);
  if (isPowerOfTwo)
    for (StringRef step : {"aten.log2", "aten.floor", "aten.exp2"})
      scale = ops.make(step, {scale}, {}, scales);
  return scale;
}

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

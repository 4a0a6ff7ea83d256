//===- BindOperator.cpp - What LibTorch is given for an op ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "BindOperator.h"

#include "ir/aten/Aten.h"
#include "ir/aten/OpModel.h"

#include "mlir/IR/BuiltinTypes.h"

#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::test;
using namespace mlir;

at::ScalarType test::toDtype(Type type) {
  if (type.isF32())
    return at::kFloat;
  if (type.isBF16())
    return at::kBFloat16;
  if (type.isInteger(1))
    return at::kBool;
  if (type.isSignlessInteger(32))
    return at::kInt;
  if (type.isInteger(16))
    return at::kShort;
  if (isa<ComplexType>(type))
    return at::kComplexFloat;
  return at::kLong;
}

std::vector<TensorArgument>
test::bindTensors(mlir::Operation *op,
                  const std::vector<at::Tensor> &operands) {
  std::vector<TensorArgument> arguments;
  size_t next = 0;
  for (const aten::BoundTensors &bound : aten::getTensorArguments(op)) {
    if (bound.none)
      continue;
    TensorArgument argument{
        bound.argument->name.str(), {}, bound.argument->isList()};
    for (Value tensor : bound.tensors)
      argument.tensors.push_back(tensor ? operands[next++] : at::Tensor());
    arguments.push_back(argument);
  }
  return arguments;
}

std::vector<StaticArgument> test::bindStatics(DictionaryAttr property) {
  std::vector<StaticArgument> statics;
  for (NamedAttribute entry : property) {
    StaticArgument argument{entry.getName().str(), int64_t(0)};
    Attribute value = entry.getValue();
    if (entry.getName() == aten::kSegments)
      continue;
    if (auto flag = dyn_cast<BoolAttr>(value))
      argument.value = flag.getValue();
    else if (auto number = dyn_cast<IntegerAttr>(value))
      argument.value = number.getInt();
    else if (auto real = dyn_cast<FloatAttr>(value))
      argument.value = real.getValueAsDouble();
    else if (auto type = dyn_cast<TypeAttr>(value))
      argument.value = "dtype:" + std::to_string(int(toDtype(type.getValue())));
    else if (auto text = dyn_cast<StringAttr>(value))
      argument.value = text.getValue() == "contiguous" ? std::string("format:0")
                                                       : text.getValue().str();
    else if (auto list = dyn_cast<ArrayAttr>(value);
             list && llvm::all_of(list, llvm::IsaPred<BoolAttr>)) {
      std::vector<bool> flags;
      for (auto each : list.getAsRange<BoolAttr>())
        flags.push_back(each.getValue());
      argument.value = flags;
    } else if (list) {
      std::vector<int64_t> numbers;
      for (auto each : list.getAsRange<IntegerAttr>())
        numbers.push_back(each.getInt());
      argument.value = numbers;
    } else {
      ADD_FAILURE() << "a static argument of another kind";
    }
    statics.push_back(argument);
  }
  return statics;
}

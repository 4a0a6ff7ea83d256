//===- EmitArguments.cpp - Arguments of operator calls --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/emit/EmitArguments.h"

#include "ir/aten/Aten.h"
#include "passes/emit/Types.h"

#include "llvm/ADT/StringSwitch.h"

#include <complex>

using namespace mlir;
using namespace fsdp;
using plan::ArgKind;

namespace {

/// Sets `arg` to a number of a schema's Scalar, by the attribute's own kind.
bool setScalar(Attribute value, plan::ArgT &arg) {
  if (auto boolean = dyn_cast<BoolAttr>(value)) {
    arg.kind = ArgKind::boolean;
    arg.ints = {boolean.getValue()};
  } else if (auto integer = dyn_cast<IntegerAttr>(value)) {
    arg.kind = ArgKind::integer;
    arg.ints = {integer.getInt()};
  } else if (auto number = dyn_cast<FloatAttr>(value)) {
    arg.kind = ArgKind::number;
    arg.doubles = {number.getValueAsDouble()};
  } else if (auto number = dyn_cast<DenseElementsAttr>(value)) {
    // The verifier let one complex number of two f64 in (AT-2).
    std::complex<APFloat> both = number.getSplatValue<std::complex<APFloat>>();
    arg.kind = ArgKind::complex;
    arg.doubles = {both.real().convertToDouble(),
                   both.imag().convertToDouble()};
  } else {
    return false;
  }
  return true;
}

/// The members of a list; one number stands for all of a list of fixed size.
SmallVector<Attribute> getMembers(Attribute value,
                                  const aten::Argument &argument) {
  if (auto array = dyn_cast<ArrayAttr>(value))
    return llvm::to_vector(array.getValue());
  return SmallVector<Attribute>(std::max(argument.listSize, 1), value);
}

bool setInts(Attribute value, const aten::Argument &argument, plan::ArgT &arg) {
  for (Attribute member : getMembers(value, argument)) {
    auto integer = dyn_cast<IntegerAttr>(member);
    if (!integer)
      return false;
    // A bool is one bit wide; its value is not its sign.
    bool isBool = integer.getType().isInteger(1);
    arg.ints.push_back(isBool ? integer.getValue().getZExtValue()
                              : integer.getInt());
  }
  return true;
}

bool setFloats(Attribute value, const aten::Argument &argument,
               plan::ArgT &arg) {
  arg.kind = ArgKind::numbers;
  for (Attribute member : getMembers(value, argument)) {
    if (auto number = dyn_cast<FloatAttr>(member))
      arg.doubles.push_back(number.getValueAsDouble());
    else if (auto integer = dyn_cast<IntegerAttr>(member))
      arg.doubles.push_back(static_cast<double>(integer.getInt()));
    else
      return false;
  }
  return true;
}

bool setStatic(Attribute value, const aten::Argument &argument,
               plan::ArgT &arg) {
  switch (argument.kind) {
  case aten::Kind::Int:
  case aten::Kind::Float:
  case aten::Kind::Bool:
  case aten::Kind::Scalar:
    return setScalar(value, arg);
  case aten::Kind::String:
    if (auto text = dyn_cast<StringAttr>(value)) {
      arg.kind = ArgKind::text;
      arg.text = text.str();
      return true;
    }
    return false;
  case aten::Kind::DType:
    if (auto type = dyn_cast<TypeAttr>(value))
      if (std::optional<plan::DType> dtype = toDType(type.getValue())) {
        arg.kind = ArgKind::dtype;
        arg.ints = {static_cast<int64_t>(*dtype)};
        return true;
      }
    return false;
  case aten::Kind::MemoryFormat:
    if (auto text = dyn_cast<StringAttr>(value)) {
      int64_t format = llvm::StringSwitch<int64_t>(text.getValue())
                           .Case("contiguous", 0)
                           .Case("preserve", 1)
                           .Case("channels_last", 2)
                           .Case("channels_last_3d", 3)
                           .Default(-1);
      arg.kind = ArgKind::memory_format;
      arg.ints = {format};
      return format >= 0;
    }
    return false;
  case aten::Kind::IntList:
    arg.kind = ArgKind::integers;
    return setInts(value, argument, arg);
  case aten::Kind::BoolList:
    arg.kind = ArgKind::booleans;
    return setInts(value, argument, arg);
  case aten::Kind::FloatList:
    return setFloats(value, argument, arg);
  default:
    return false;
  }
}

} // namespace

LogicalResult
fsdp::emitArguments(Operation *op, function_ref<int32_t(Value)> idOf,
                    std::vector<std::unique_ptr<plan::ArgT>> &arguments) {
  const aten::Schema *schema = aten::lookupSchema(op);
  SmallVector<aten::BoundTensors> tensors = aten::getTensorArguments(op);
  auto *bound = tensors.begin();
  for (const aten::Argument &argument : schema->arguments) {
    auto arg = std::make_unique<plan::ArgT>();
    if (argument.isTensor()) {
      const aten::BoundTensors &values = *bound++;
      if (values.none) {
        arg->kind = ArgKind::none;
      } else {
        arg->kind = argument.kind == aten::Kind::Tensor ? ArgKind::tensor
                    : argument.kind == aten::Kind::TensorList
                        ? ArgKind::tensors
                        : ArgKind::optional_tensors;
        for (Value value : values.tensors)
          arg->values.push_back(value ? idOf(value) : -1);
      }
    } else if (argument.kind == aten::Kind::Device) {
      arg->kind = ArgKind::device;
    } else if (argument.kind == aten::Kind::Layout && !argument.optional) {
      arg->kind = ArgKind::layout;
    } else if (argument.kind == aten::Kind::Bool &&
               argument.isRuntimeChoice() && !argument.optional) {
      arg->kind = ArgKind::boolean;
      arg->ints = {0};
    } else if (!argument.isRuntimeChoice()) {
      Attribute value = aten::getStaticArgument(op, argument.name);
      if (value && !setStatic(value, argument, *arg))
        return op->emitOpError("has an argument '")
               << argument.name << "' that an artifact cannot hold: " << value;
      if (!value && !argument.optional)
        return op->emitOpError("lacks the argument '") << argument.name << "'";
    }
    arguments.push_back(std::move(arg));
  }
  return success();
}

//===- Verifier.cpp - An op against its schema ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rules AT-1 to AT-7 of docs/Rationale/Aten.md.
//
//===----------------------------------------------------------------------===//

#include "ir/aten/Aten.h"
#include "ir/aten/Normalize.h"
#include "ir/aten/OpModel.h"

using namespace mlir;
using namespace fsdp;
using namespace fsdp::aten;

static bool isInt(Attribute value) {
  auto integer = dyn_cast<IntegerAttr>(value);
  return integer && integer.getType().isSignlessInteger(64);
}

static bool isFloat(Attribute value) {
  auto number = dyn_cast<FloatAttr>(value);
  return number && number.getType().isF64();
}

static bool isNumber(Attribute value) {
  return isInt(value) || isFloat(value) || isa<BoolAttr>(value);
}

/// `dense<(0.0, 1.0)> : tensor<complex<f64>>`.
static bool isComplex(Attribute value) {
  auto number = dyn_cast<DenseElementsAttr>(value);
  auto type = number ? dyn_cast<ComplexType>(number.getElementType()) : nullptr;
  return type && type.getElementType().isF64() &&
         number.getType().getRank() == 0;
}

static bool isListOf(Attribute value, function_ref<bool(Attribute)> element) {
  auto list = dyn_cast<ArrayAttr>(value);
  return list && llvm::all_of(list, element);
}

static bool isOfKind(Attribute value, Kind kind) {
  auto isBool = [](Attribute v) { return isa<BoolAttr>(v); };
  auto isString = [](Attribute v) { return isa<StringAttr>(v); };
  switch (kind) {
  case Kind::Int:
    return isInt(value);
  case Kind::Float:
    return isFloat(value);
  case Kind::Bool:
    return isBool(value);
  case Kind::Scalar:
    return isNumber(value) || isComplex(value);
  case Kind::String:
    return isString(value);
  case Kind::DType:
    return isa<TypeAttr>(value);
  case Kind::MemoryFormat: {
    auto format = dyn_cast<StringAttr>(value);
    return format && llvm::is_contained({"contiguous", "preserve",
                                         "channels_last", "channels_last_3d"},
                                        format.getValue());
  }
  case Kind::IntList:
    return isListOf(value, isInt);
  case Kind::FloatList:
    return isListOf(value, isFloat);
  case Kind::BoolList:
    return isListOf(value, isBool);
  case Kind::ScalarList:
    return isListOf(value, isNumber);
  case Kind::StringList:
    return isListOf(value, isString);
  default:
    return false;
  }
}

// AT-1: operands are what `segments` and `present` say, each a tensor or list
// as the schema has it; required ones are there.
static LogicalResult verifyTensors(const Schema &schema, Operation *op) {
  DictionaryAttr property = getProperty(op);
  auto segments = property.getAs<DenseI32ArrayAttr>(kSegments);
  auto present = property.getAs<DenseBoolArrayAttr>(kPresent);
  if (property.contains(kSegments) && !segments)
    return op->emitOpError("expects 'segments' to be array<i32>, found ")
           << property.get(kSegments);
  if (property.contains(kPresent) && !present)
    return op->emitOpError("expects 'present' to be array<i1>, found ")
           << property.get(kPresent);

  SmallVector<BoundTensors> bound = getTensorArguments(op);
  if (segments && size_t(segments.size()) > bound.size())
    return op->emitOpError("expects ")
           << bound.size() << " tensor arguments by its schema, found "
           << segments.size();
  size_t used = 0, members = 0;
  for (const BoundTensors &tensors : bound) {
    const Argument &argument = *tensors.argument;
    size_t size = tensors.tensors.size();
    if (tensors.none) {
      if (!argument.isOmittable())
        return op->emitOpError("lacks the ")
               << getKindName(argument.kind) << " '" << argument.name << "'";
      continue;
    }
    if (!argument.isList() && size != 1)
      return op->emitOpError("has a list of ")
             << size << " for '" << argument.name << "', which is one tensor";
    if (argument.kind == Kind::OptionalTensorList) {
      members += size;
      for (size_t k = 0; present && k < size; ++k)
        used += members - size + k < size_t(present.size()) &&
                present.asArrayRef()[members - size + k];
      used += present ? 0 : size;
    } else {
      used += size;
    }
  }
  if (present && size_t(present.size()) != members)
    return op->emitOpError("expects 'present' to have one entry for each of ")
           << members << " list members, found " << present.size();
  if (used != op->getNumOperands())
    return op->emitOpError("expects ")
           << used << " operands by its schema, found " << op->getNumOperands();
  return success();
}

// AT-2: every static argument is one of the schema's, of its kind; AT-3: those
// that the runtime decides are left out; AT-4: so are those that equal their
// default; AT-5: the others are there.
static LogicalResult verifyStatics(const Schema &schema, Operation *op) {
  DictionaryAttr property = getProperty(op);
  for (NamedAttribute entry : property) {
    StringRef name = entry.getName();
    Attribute value = entry.getValue();
    if (name == kSegments || name == kPresent)
      continue;
    const Argument *argument = schema.find(name);
    if (!argument)
      return op->emitOpError("has an argument '")
             << name << "' that its schema does not know: " << schema.text;
    if (argument->isTensor())
      return op->emitOpError("has an attribute for '")
             << name << "', which is a " << getKindName(argument->kind);
    if (argument->isRuntimeChoice())
      return op->emitOpError("has an argument '")
             << name << "' that the runtime decides; leave it out";
    if (isa<UnitAttr>(value)) {
      if (argument->optional && argument->getDefault(op->getContext()))
        continue;
    } else if (!isOfKind(value, argument->kind)) {
      return op->emitOpError("expects '")
             << name << "' to be of kind '" << getKindName(argument->kind)
             << "', found " << value;
    }
    if (!normalizeArgument(*argument, value))
      return op->emitOpError("has an argument '")
             << name << "' that equals its default; leave it out";
  }
  for (const Argument &argument : schema.arguments)
    if (!argument.isTensor() && !argument.isRuntimeChoice() &&
        !argument.isOmittable() && !property.contains(argument.name))
      return op->emitOpError("lacks the ")
             << getKindName(argument.kind) << " '" << argument.name
             << "' of its schema " << schema.text;
  return success();
}

// AT-6: operands are ranked tensors of static shape; results are that or none,
// numbers their plain types.
static LogicalResult verifyType(Operation *op, Type type, Kind kind,
                                StringRef what, unsigned index) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  bool fits = false;
  switch (kind) {
  case Kind::Int:
    fits = type.isSignlessInteger(64);
    break;
  case Kind::Bool:
    fits = type.isSignlessInteger(1);
    break;
  case Kind::Float:
    fits = type.isF64();
    break;
  case Kind::Tensor:
  case Kind::TensorList:
    fits = tensor && tensor.hasStaticShape();
    break;
  default:
    break;
  }
  if (fits)
    return success();
  InFlightDiagnostic diag = op->emitOpError("expects ") << what << " " << index;
  if (kind == Kind::Tensor || kind == Kind::TensorList)
    diag << " to be a tensor of static shape";
  else
    diag << " to be of kind '" << getKindName(kind) << "'";
  return diag << ", found " << type;
}

// AT-7: as many results as the schema has; a list takes what the others leave.
static LogicalResult verifyResults(const Schema &schema, Operation *op) {
  SmallVector<unsigned> counts = getResultCounts(op);
  unsigned total = 0;
  for (unsigned count : counts)
    total += count;
  if (total != op->getNumResults())
    return op->emitOpError("expects ")
           << total << " results by its schema, found " << op->getNumResults();
  unsigned result = 0;
  for (auto [declared, count] : llvm::zip(schema.results, counts))
    for (unsigned i = 0; i < count; ++i, ++result) {
      Type type = op->getResult(result).getType();
      if (!isa<NoneType>(type) &&
          failed(verifyType(op, type, declared.kind, "result", result)))
        return failure();
    }
  return success();
}

LogicalResult aten::verifyAtenOp(const Schema &schema, Operation *op) {
  if (failed(verifyTensors(schema, op)) || failed(verifyStatics(schema, op)))
    return failure();
  for (auto [i, type] : llvm::enumerate(op->getOperandTypes()))
    if (failed(verifyType(op, type, Kind::Tensor, "operand", i)))
      return failure();
  return verifyResults(schema, op);
}

//===- Builder.cpp - Build and read ops of the aten dialect ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Aten.h"
#include "ir/aten/Normalize.h"
#include "ir/aten/OpModel.h"

#include "llvm/Support/ErrorHandling.h"

using namespace mlir;
using namespace fsdp;
using namespace fsdp::aten;

//===----------------------------------------------------------------------===//
// Normal form
//===----------------------------------------------------------------------===//

Attribute aten::normalizeArgument(const Argument &argument, Attribute value) {
  if (!value || argument.isRuntimeChoice())
    return {};
  MLIRContext *context = value.getContext();
  Attribute defaultValue = argument.getDefault(context);
  if (isa<UnitAttr>(value)) // None, said explicitly
    return defaultValue ? value : Attribute();
  auto toFloat = [&](Attribute element) -> Attribute {
    auto integer = dyn_cast<IntegerAttr>(element);
    if (!integer || isa<BoolAttr>(element))
      return element;
    return FloatAttr::get(Float64Type::get(context),
                          double(integer.getValue().getSExtValue()));
  };
  if (argument.kind == Kind::Float)
    value = toFloat(value);
  if (auto list = dyn_cast<ArrayAttr>(value);
      list && argument.kind == Kind::FloatList)
    value =
        ArrayAttr::get(context, llvm::map_to_vector(list.getValue(), toFloat));
  return value == defaultValue ? Attribute() : value;
}

void aten::appendSegments(MLIRContext *context, SmallVectorImpl<int32_t> &sizes,
                          ArrayRef<bool> present, NamedAttrList &property) {
  while (!sizes.empty() && sizes.back() < 0)
    sizes.pop_back();
  if (llvm::any_of(sizes, [](int32_t size) { return size != 1; }))
    property.set(kSegments, DenseI32ArrayAttr::get(context, sizes));
  if (llvm::is_contained(present, false))
    property.set(kPresent, DenseBoolArrayAttr::get(context, present));
}

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

Operation *aten::buildAtenOp(OpBuilder &builder, Location loc, StringRef name,
                             ArrayRef<TensorArgument> tensors,
                             ArrayRef<NamedAttribute> arguments,
                             TypeRange results) {
  const Schema *schema = lookupSchema(name);
  if (!schema)
    llvm::report_fatal_error("no operator '" + name + "' in the table");

  OperationState state(loc, name);
  state.addTypes(results);
  SmallVector<int32_t> sizes;
  SmallVector<bool> present;
  SmallVector<const Argument *> tensorArguments;
  for (const Argument &argument : schema->arguments)
    if (argument.isTensor())
      tensorArguments.push_back(&argument);
  for (auto [i, tensor] : llvm::enumerate(tensors)) {
    if (!tensor.isList()) {
      sizes.push_back(tensor.isNone() ? -1 : 1);
      if (!tensor.isNone())
        state.operands.push_back(tensor.getTensor());
      continue;
    }
    sizes.push_back(int32_t(tensor.getTensors().size()));
    bool holes = i < tensorArguments.size() &&
                 tensorArguments[i]->kind == Kind::OptionalTensorList;
    for (Value member : tensor.getTensors()) {
      if (holes)
        present.push_back(bool(member));
      if (member)
        state.operands.push_back(member);
    }
  }

  NamedAttrList property;
  for (NamedAttribute entry : arguments) {
    const Argument *argument = schema->find(entry.getName());
    Attribute value = argument ? normalizeArgument(*argument, entry.getValue())
                               : entry.getValue();
    if (value)
      property.set(entry.getName(), value);
  }
  appendSegments(builder.getContext(), sizes, present, property);
  state.propertiesAttr = property.getDictionary(builder.getContext());
  return builder.create(state);
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

SmallVector<BoundTensors> aten::getTensorArguments(Operation *op) {
  const Schema *schema = lookupSchema(op);
  DictionaryAttr property = getProperty(op);
  auto segments = property.getAs<DenseI32ArrayAttr>(kSegments);
  auto present = property.getAs<DenseBoolArrayAttr>(kPresent);

  SmallVector<BoundTensors> bound;
  size_t operand = 0, member = 0;
  auto take = [&]() -> Value {
    return operand < op->getNumOperands() ? op->getOperand(operand++) : Value();
  };
  for (const Argument &argument : schema->arguments) {
    if (!argument.isTensor())
      continue;
    size_t i = bound.size();
    BoundTensors &tensors = bound.emplace_back();
    tensors.argument = &argument;
    int32_t size = -1;
    if (!segments)
      size = operand < op->getNumOperands() ? 1 : -1;
    else if (i < size_t(segments.size()))
      size = segments[i];
    tensors.none = size < 0;
    bool holes = argument.kind == Kind::OptionalTensorList && present;
    for (int32_t k = 0; k < size; ++k) {
      bool here = !holes || (member < size_t(present.size()) &&
                             present.asArrayRef()[member]);
      if (holes)
        ++member;
      tensors.tensors.push_back(here ? take() : Value());
    }
  }
  return bound;
}

Attribute aten::getStaticArgument(Operation *op, StringRef name) {
  if (Attribute value = getProperty(op).get(name))
    return isa<UnitAttr>(value) ? Attribute() : value;
  const Argument *argument = lookupSchema(op)->find(name);
  return argument ? argument->getDefault(op->getContext()) : Attribute();
}

SmallVector<unsigned> aten::getResultCounts(Operation *op) {
  const Schema *schema = lookupSchema(op);
  bool anyTensor = llvm::any_of(
      schema->results, [](const Result &result) { return result.isTensor(); });
  unsigned lists = 0, single = 0;
  for (const Result &result : schema->results)
    if (result.kind == Kind::TensorList)
      ++lists;
    else if (result.isTensor() || !anyTensor)
      ++single;
  unsigned left =
      op->getNumResults() > single ? op->getNumResults() - single : 0;
  SmallVector<unsigned> counts;
  for (const Result &result : schema->results)
    counts.push_back(result.kind == Kind::TensorList   ? left / lists
                     : result.isTensor() || !anyTensor ? 1
                                                       : 0);
  return counts;
}

Value aten::getViewSource(OpResult result) {
  Operation *op = result.getOwner();
  const Schema *schema = lookupSchema(op);
  if (!schema)
    return {};
  unsigned index = 0, first = 0;
  for (unsigned count : getResultCounts(op)) {
    if (result.getResultNumber() < first + count)
      break;
    first += count;
    ++index;
  }
  if (index >= schema->results.size())
    return {};
  int32_t source = schema->getViewSource(index);
  if (source < 0)
    return {};
  for (BoundTensors &tensors : getTensorArguments(op)) {
    if (tensors.argument != &schema->arguments[source])
      continue;
    if (!tensors.argument->isList())
      return tensors.tensors.empty() ? Value() : tensors.tensors.front();
    // Lists are viewed member by member: broadcast_tensors, meshgrid.
    unsigned member = result.getResultNumber() - first;
    return member < tensors.tensors.size() ? tensors.tensors[member] : Value();
  }
  return {};
}

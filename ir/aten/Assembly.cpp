//===- Assembly.cpp - Text of aten ops ------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//   %y = aten.add.Tensor(%a, %b, alpha = 2) : (tensor<…>, tensor<…>) ->
//   tensor<…>
//
// Tensors in the order of the schema, lists in brackets, `none` for an absent
// tensor or a hole; then static arguments by name.
//
//===----------------------------------------------------------------------===//

#include "ir/aten/Aten.h"
#include "ir/aten/Normalize.h"
#include "ir/aten/OpModel.h"

#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace fsdp;
using namespace fsdp::aten;

namespace {

class ArgumentParser {
public:
  ArgumentParser(const Schema &schema, OpAsmParser &parser)
      : parser(parser), schema(schema) {
    for (const Argument &argument : schema.arguments)
      if (argument.isTensor())
        tensorArguments.push_back(&argument);
  }

  ParseResult parse(OperationState &state) {
    SMLoc loc = parser.getCurrentLocation();
    FunctionType type;
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren,
                                       [&] { return parseItem(); }) ||
        parser.parseOptionalAttrDict(state.attributes) ||
        parser.parseColonType(type) ||
        parser.resolveOperands(operands, type.getInputs(), loc, state.operands))
      return failure();
    appendSegments(parser.getContext(), sizes, present, property);
    state.propertiesAttr = property.getDictionary(parser.getContext());
    state.addTypes(type.getResults());
    return success();
  }

private:
  ParseResult parseItem() {
    SMLoc loc = parser.getCurrentLocation();
    OpAsmParser::UnresolvedOperand operand;
    OptionalParseResult parsed = parser.parseOptionalOperand(operand);
    if (parsed.has_value()) {
      operands.push_back(operand);
      return failed(*parsed) ? failure() : addTensor(loc, 1, /*list=*/false);
    }
    if (succeeded(parser.parseOptionalLSquare()))
      return parseList(loc);
    StringRef name;
    if (parser.parseKeyword(&name))
      return failure();
    if (name == "none")
      return addTensor(loc, -1, /*list=*/false);
    return parseStatic(loc, name);
  }

  ParseResult addTensor(SMLoc loc, int32_t size, bool list) {
    if (sizes.size() == tensorArguments.size())
      return parser.emitError(loc, "expected at most ")
             << tensorArguments.size() << " tensors by the schema "
             << schema.text;
    const Argument &argument = *tensorArguments[sizes.size()];
    if (size >= 0 && list != argument.isList())
      return parser.emitError(loc, "expected a ")
             << getKindName(argument.kind) << " for '" << argument.name
             << "', found a " << (list ? "list" : "single tensor");
    sizes.push_back(size);
    return success();
  }

  // Behind `[`.
  ParseResult parseList(SMLoc loc) {
    bool holes =
        sizes.size() < tensorArguments.size() &&
        tensorArguments[sizes.size()]->kind == Kind::OptionalTensorList;
    int32_t size = 0;
    if (failed(parser.parseOptionalRSquare())) {
      auto member = [&]() -> ParseResult {
        ++size;
        if (holes && succeeded(parser.parseOptionalKeyword("none"))) {
          present.push_back(false);
          return success();
        }
        if (holes)
          present.push_back(true);
        return parser.parseOperand(operands.emplace_back());
      };
      if (parser.parseCommaSeparatedList(member) || parser.parseRSquare())
        return failure();
    }
    return addTensor(loc, size, /*list=*/true);
  }

  ParseResult parseStatic(SMLoc loc, StringRef name) {
    Attribute value;
    if (parser.parseEqual() || parser.parseAttribute(value))
      return failure();
    if (property.get(name))
      return parser.emitError(loc, "expected '") << name << "' once";
    const Argument *argument = schema.find(name);
    if (argument && !argument->isTensor() && !argument->isRuntimeChoice())
      value = normalizeArgument(*argument, value);
    if (value)
      property.append(name, value);
    return success();
  }

  OpAsmParser &parser;
  const Schema &schema;
  SmallVector<const Argument *> tensorArguments;
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  SmallVector<int32_t> sizes;
  SmallVector<bool> present;
  NamedAttrList property;
};

// Numbers without their type: i64 and f64 are the only ones. Infinities and
// NaNs print in hexadecimal, which needs it.
void printValue(OpAsmPrinter &printer, Attribute value) {
  bool elide = false;
  if (auto integer = dyn_cast<IntegerAttr>(value))
    elide = integer.getType().isSignlessInteger(64);
  if (auto number = dyn_cast<FloatAttr>(value))
    elide = number.getType().isF64() && number.getValue().isFinite();
  if (elide)
    printer.printAttributeWithoutType(value);
  else
    printer.printAttribute(value);
}

} // namespace

ParseResult aten::parseAtenOp(const Schema &schema, OpAsmParser &parser,
                              OperationState &state) {
  return ArgumentParser(schema, parser).parse(state);
}

void aten::printAtenOp(const Schema &schema, Operation *op,
                       OpAsmPrinter &printer) {
  printer << op->getName() << "(";
  bool first = true;
  auto separate = [&] {
    if (!first)
      printer << ", ";
    first = false;
  };
  auto printTensor = [&](Value tensor) {
    if (tensor)
      printer << tensor;
    else
      printer << "none";
  };

  SmallVector<BoundTensors> bound = getTensorArguments(op);
  while (!bound.empty() && bound.back().none)
    bound.pop_back();
  for (const BoundTensors &tensors : bound) {
    separate();
    if (tensors.none) {
      printer << "none";
      continue;
    }
    bool list = tensors.argument->isList();
    if (list)
      printer << "[";
    llvm::interleaveComma(tensors.tensors, printer, printTensor);
    if (list)
      printer << "]";
  }

  DictionaryAttr property = getProperty(op);
  for (const Argument &argument : schema.arguments) {
    Attribute value = property.get(argument.name);
    if (!value || argument.isTensor())
      continue;
    separate();
    printer << argument.name << " = ";
    printValue(printer, value);
  }
  printer << ")";
  printer.printOptionalAttrDict(llvm::to_vector(op->getDiscardableAttrs()));
  printer << " : ";
  printer.printFunctionalType(op);
}

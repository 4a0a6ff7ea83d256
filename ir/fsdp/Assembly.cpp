//===- Assembly.cpp - Op classes and their custom syntax ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/fsdp/Fsdp.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fsdp;

using Operand = OpAsmParser::UnresolvedOperand;

// dense<0.5> wrapped : tensor<f64>
static ParseResult parseConstantValue(OpAsmParser &parser, ElementsAttr &value,
                                      Type &type, UnitAttr &wrapped) {
  // The literal alone: `dense<…>` does not parse without the type behind it, so
  // `wrapped` stands first.
  if (succeeded(parser.parseOptionalKeyword("wrapped")))
    wrapped = parser.getBuilder().getUnitAttr();
  if (parser.parseAttribute(value))
    return failure();
  type = value.getType();
  return success();
}

static void printConstantValue(OpAsmPrinter &printer, Operation *,
                               ElementsAttr value, Type, UnitAttr wrapped) {
  if (wrapped)
    printer << "wrapped ";
  printer << value;
}

// Longer lists stand on lines of their own.
static constexpr size_t kItemsOfALine = 4;

template <typename Range>
static void printLines(OpAsmPrinter &printer, const Range &items) {
  for (auto [i, item] : llvm::enumerate(items)) {
    if (i)
      printer << ",";
    if (i && i % kItemsOfALine == 0) {
      printer.printNewline();
      printer << "    ";
    } else if (i) {
      printer << " ";
    }
    printer << item;
  }
}

static ParseResult parseOperands(OpAsmParser &parser,
                                 SmallVectorImpl<Operand> &operands) {
  return parser.parseOperandList(operands);
}

static void printOperands(OpAsmPrinter &printer, Operation *,
                          OperandRange operands) {
  printLines(printer, operands);
}

static ParseResult parseTypes(OpAsmParser &parser,
                              SmallVectorImpl<Type> &types) {
  return parser.parseTypeList(types);
}

static void printTypes(OpAsmPrinter &printer, Operation *, TypeRange types) {
  printLines(printer, types);
}

// Optimizers print the parameters' types, and all others only where they
// differ from what the parameters imply: gradients and moments like the
// parameters, scalars 0-d f32.
static RankedTensorType getScalarType(Builder &builder) {
  return RankedTensorType::get({}, builder.getF32Type());
}

static ParseResult
parseAdamTypes(OpAsmParser &parser, SmallVectorImpl<Type> &params,
               SmallVectorImpl<Type> &grads, SmallVectorImpl<Type> &expAvgs,
               SmallVectorImpl<Type> &expAvgSqs, Type &step, Type &lr,
               std::optional<Operand> gradScale, Type &gradScaleType,
               std::optional<Operand> foundInf, Type &foundInfType,
               SmallVectorImpl<Type> &newParams,
               SmallVectorImpl<Type> &newExpAvgs,
               SmallVectorImpl<Type> &newExpAvgSqs) {
  if (parser.parseTypeList(params))
    return failure();
  for (auto *types :
       {&grads, &expAvgs, &expAvgSqs, &newParams, &newExpAvgs, &newExpAvgSqs})
    types->assign(params.begin(), params.end());
  step = lr = getScalarType(parser.getBuilder());
  if (gradScale)
    gradScaleType = lr;
  if (foundInf)
    foundInfType = lr;
  return success();
}

static void printAdamTypes(OpAsmPrinter &printer, Operation *, TypeRange params,
                           TypeRange, TypeRange, TypeRange, Type, Type, Value,
                           Type, Value, Type, TypeRange, TypeRange, TypeRange) {
  printLines(printer, params);
}

static ParseResult
parseSgdTypes(OpAsmParser &parser, SmallVectorImpl<Type> &params,
              SmallVectorImpl<Type> &grads, ArrayRef<Operand> momentumBuffers,
              SmallVectorImpl<Type> &momentumTypes, Type &lr,
              std::optional<Operand> gradScale, Type &gradScaleType,
              std::optional<Operand> foundInf, Type &foundInfType,
              SmallVectorImpl<Type> &newParams,
              SmallVectorImpl<Type> &newMomentumBuffers) {
  if (parser.parseTypeList(params))
    return failure();
  grads.assign(params.begin(), params.end());
  newParams.assign(params.begin(), params.end());
  if (!momentumBuffers.empty()) {
    momentumTypes.assign(params.begin(), params.end());
    newMomentumBuffers.assign(params.begin(), params.end());
  }
  lr = getScalarType(parser.getBuilder());
  if (gradScale)
    gradScaleType = lr;
  if (foundInf)
    foundInfType = lr;
  return success();
}

static void printSgdTypes(OpAsmPrinter &printer, Operation *, TypeRange params,
                          TypeRange, OperandRange, TypeRange, Type, Value, Type,
                          Value, Type, TypeRange, TypeRange) {
  printLines(printer, params);
}

// `sharded <dim 0 over #shard>`, `flat <over #shard>`, `part <@flat at 96>`
static OptionalParseResult parsePlacement(OpAsmParser &parser,
                                          PlacementAttrInterface &placement) {
  auto parse = [&](auto attribute) -> ParseResult {
    if (parser.parseCustomAttributeWithFallback(attribute))
      return failure();
    placement = attribute;
    return success();
  };
  if (succeeded(parser.parseOptionalKeyword("sharded")))
    return parse(ShardingAttr());
  if (succeeded(parser.parseOptionalKeyword("flat")))
    return parse(FlatAttr());
  if (succeeded(parser.parseOptionalKeyword("part")))
    return parse(PartAttr());
  return std::nullopt;
}

static void printPlacement(OpAsmPrinter &printer, Operation *,
                           PlacementAttrInterface placement) {
  llvm::TypeSwitch<Attribute>(placement)
      .Case([&](ShardingAttr attribute) {
        printer << "sharded ";
        printer.printStrippedAttrOrType(attribute);
      })
      .Case([&](FlatAttr attribute) {
        printer << "flat ";
        printer.printStrippedAttrOrType(attribute);
      })
      .Case([&](PartAttr attribute) {
        printer << "part ";
        printer.printStrippedAttrOrType(attribute);
      });
}

// `source <"record" at 0 : 52>`, `weight <"w">`, `init 1.0 : f32`
static OptionalParseResult parseFirstValue(OpAsmParser &parser,
                                           Attribute &value) {
  auto parse = [&](auto attribute) -> ParseResult {
    if (parser.parseCustomAttributeWithFallback(attribute))
      return failure();
    value = attribute;
    return success();
  };
  if (succeeded(parser.parseOptionalKeyword("source")))
    return parse(RecordAttr());
  if (succeeded(parser.parseOptionalKeyword("weight")))
    return parse(WeightAttr());
  if (succeeded(parser.parseOptionalKeyword("init")))
    return parser.parseAttribute(value);
  return std::nullopt;
}

static void printFirstValue(OpAsmPrinter &printer, Operation *,
                            Attribute value) {
  llvm::TypeSwitch<Attribute>(value)
      .Case([&](RecordAttr attribute) {
        printer << "source ";
        printer.printStrippedAttrOrType(attribute);
      })
      .Case([&](WeightAttr attribute) {
        printer << "weight ";
        printer.printStrippedAttrOrType(attribute);
      })
      .Default([&](Attribute attribute) { printer << "init " << attribute; });
}

#define GET_OP_CLASSES
#include "ir/fsdp/Ops.cpp.inc"

void FsdpDialect::registerOps() {
  addOperations<
#define GET_OP_LIST
#include "ir/fsdp/Ops.cpp.inc"
      >();
}

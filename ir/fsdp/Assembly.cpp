//===- Assembly.cpp - Op classes and their custom syntax ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/fsdp/Fsdp.h"

#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace fsdp;

using Operand = OpAsmParser::UnresolvedOperand;

// tensor<13xf32>, tensor<2x13xf32> -> tensor<13xf32>
static ParseResult parseSumTypes(OpAsmParser &parser, Type &gradient,
                                 Type &into, Type &result) {
  if (parser.parseType(gradient) || parser.parseComma() ||
      parser.parseType(into))
    return failure();
  result = into;
  return failed(parser.parseOptionalArrow()) ? ParseResult(success())
                                             : parser.parseType(result);
}

static void printSumTypes(OpAsmPrinter &printer, Operation *, Type gradient,
                          Type into, Type result) {
  printer << gradient << ", " << into;
  if (result != into)
    printer << " -> " << result;
}

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

// What combines says how; what it is for is said where it is not the usual.
static ParseResult parseCollective(OpAsmParser &parser, CollectiveAttr &kind,
                                   ReductionAttr &combination) {
  FailureOr<Collective> collective = FieldParser<Collective>::parse(parser);
  if (failed(collective))
    return failure();
  kind = CollectiveAttr::get(parser.getContext(), *collective);
  if (!isCombining(*collective))
    return success();
  FailureOr<Reduction> reduction = FieldParser<Reduction>::parse(parser);
  if (failed(reduction))
    return failure();
  combination = ReductionAttr::get(parser.getContext(), *reduction);
  return success();
}

static void printCollective(OpAsmPrinter &printer, Operation *,
                            CollectiveAttr kind, ReductionAttr combination) {
  printer << stringifyCollective(kind.getValue());
  if (combination)
    printer << ' ' << stringifyReduction(combination.getValue());
}

static ParseResult parsePurpose(OpAsmParser &parser, PurposeAttr &purpose,
                                CollectiveAttr kind) {
  Purpose is = getUsualPurpose(kind.getValue());
  if (succeeded(parser.parseOptionalKeyword("for"))) {
    FailureOr<Purpose> said = FieldParser<Purpose>::parse(parser);
    if (failed(said))
      return failure();
    is = *said;
  }
  purpose = PurposeAttr::get(parser.getContext(), is);
  return success();
}

static void printPurpose(OpAsmPrinter &printer, Operation *,
                         PurposeAttr purpose, CollectiveAttr kind) {
  if (purpose.getValue() != getUsualPurpose(kind.getValue()))
    printer << " for " << stringifyPurpose(purpose.getValue());
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

// Updates print the parameters' types, and all others only where they
// differ from what the parameters imply: gradients and moments like the
// parameters, scalars 0-d f32. Moments of another element type are said by
// `moments f8E4M3FN`, then what they have beside them: `scales tensor<…>, …`
// and `maxima tensor<…>`.
static RankedTensorType getScalarType(Builder &builder) {
  return RankedTensorType::get({}, builder.getF32Type());
}

static ParseResult parseMomentTypes(OpAsmParser &parser, ArrayRef<Type> params,
                                    SmallVectorImpl<Type> &moments,
                                    SmallVectorImpl<Type> &scales,
                                    Type &maxima) {
  moments.assign(params.begin(), params.end());
  if (succeeded(parser.parseOptionalKeyword("moments"))) {
    Type element;
    if (parser.parseType(element))
      return failure();
    for (Type &type : moments) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      if (!tensor)
        return parser.emitError(parser.getCurrentLocation())
               << "expected ranked tensors";
      type = RankedTensorType::get(tensor.getShape(), element);
    }
  }
  if (succeeded(parser.parseOptionalKeyword("scales")) &&
      parser.parseTypeList(scales))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("maxima")) &&
      parser.parseType(maxima))
    return failure();
  return success();
}

static void printMomentTypes(OpAsmPrinter &printer, TypeRange params,
                             TypeRange moments, TypeRange scales, Type maxima) {
  auto elementOf = [](Type type) {
    return cast<RankedTensorType>(type).getElementType();
  };
  if (!moments.empty() && elementOf(moments[0]) != elementOf(params[0]))
    printer << " moments " << elementOf(moments[0]);
  if (!scales.empty()) {
    printer << " scales ";
    printLines(printer, scales);
  }
  if (maxima)
    printer << " maxima " << maxima;
}

static ParseResult parseUpdateTypes(
    OpAsmParser &parser, SmallVectorImpl<Type> &params,
    SmallVectorImpl<Type> &grads, ArrayRef<Operand> moments,
    SmallVectorImpl<Type> &momentTypes, ArrayRef<Operand>,
    SmallVectorImpl<Type> &scales, std::optional<Operand>, Type &maxima,
    std::optional<Operand> step, Type &stepType, Type &lr,
    std::optional<Operand> gradScale, Type &gradScaleType,
    std::optional<Operand> foundInf, Type &foundInfType,
    ArrayRef<Operand> rates, SmallVectorImpl<Type> &rateTypes,
    SmallVectorImpl<Type> &newParams, SmallVectorImpl<Type> &newMoments,
    SmallVectorImpl<Type> &newScales) {
  SmallVector<Type> each;
  if (parser.parseTypeList(params) ||
      parseMomentTypes(parser, params, each, scales, maxima))
    return failure();
  grads.assign(params.begin(), params.end());
  newParams.assign(params.begin(), params.end());
  for (size_t i = 0; i < moments.size() && !each.empty(); ++i)
    momentTypes.push_back(each[i % each.size()]);
  newMoments.assign(momentTypes.begin(), momentTypes.end());
  newScales.assign(scales.begin(), scales.end());
  lr = getScalarType(parser.getBuilder());
  if (step)
    stepType = lr;
  if (gradScale)
    gradScaleType = lr;
  if (foundInf)
    foundInfType = lr;
  rateTypes.assign(rates.size(), lr);
  return success();
}

static void printUpdateTypes(OpAsmPrinter &printer, Operation *,
                             TypeRange params, TypeRange, OperandRange,
                             TypeRange moments, OperandRange, TypeRange scales,
                             Value, Type maxima, Value, Type, Type, Value, Type,
                             Value, Type, OperandRange, TypeRange, TypeRange,
                             TypeRange, TypeRange) {
  printLines(printer, params);
  printMomentTypes(printer, params, moments, scales, maxima);
}

// `exp_avgs(%m) exp_avg_sqs(%v)`, as many names as the kind has.
static ParseResult parseMoments(OpAsmParser &parser, OptimizerKindAttr kind,
                                SmallVectorImpl<Operand> &moments) {
  for (std::string_view name : getFacts(kind.getValue()).moments)
    if (parser.parseKeyword((name + Twine("s")).str()) ||
        parser.parseLParen() || parser.parseOperandList(moments) ||
        parser.parseRParen())
      return failure();
  return success();
}

static void printMoments(OpAsmPrinter &printer, Operation *,
                         OptimizerKindAttr kind, OperandRange moments) {
  const OptimizerFacts &facts = getFacts(kind.getValue());
  size_t count = moments.size() / facts.moments.size();
  for (auto [i, name] : llvm::enumerate(facts.moments)) {
    printer << (i == 0 ? "" : " ") << StringRef(name) << "s(";
    printLines(printer, moments.slice(unsigned(i * count), unsigned(count)));
    printer << ")";
  }
}

// `betas(9.0e-01, 9.5e-01) eps 1.0e-08 nesterov`, as the kind has them.
static ParseResult parseKey(OpAsmParser &parser, const OptimizerKey &key,
                            OptimizerNumbers &numbers) {
  if (getFacts(key.numbers[0]).range == NumberRange::flag) {
    if (succeeded(parser.parseOptionalKeyword(key.key)))
      numbers[key.numbers[0]] = 1;
    return success();
  }
  bool isList = key.numbers.size() > 1;
  if (parser.parseKeyword(key.key) || (isList && parser.parseLParen()))
    return failure();
  for (auto [i, number] : llvm::enumerate(key.numbers))
    if ((i > 0 && parser.parseComma()) || parser.parseFloat(numbers[number]))
      return failure();
  return isList ? parser.parseRParen() : success();
}

static ParseResult parseNumbers(OpAsmParser &parser, OptimizerKindAttr kind,
                                DictionaryAttr &attr) {
  OptimizerNumbers numbers;
  for (const OptimizerKey &key : getKeys(getFacts(kind.getValue())))
    if (parseKey(parser, key, numbers))
      return failure();
  attr = getNumbers(parser.getContext(), kind.getValue(), numbers);
  return success();
}

static void printNumbers(OpAsmPrinter &printer, Operation *,
                         OptimizerKindAttr kind, DictionaryAttr attr) {
  OptimizerNumbers numbers;
  readNumbers(attr, numbers);
  StringRef space;
  for (const auto &[key, members] : getKeys(getFacts(kind.getValue()))) {
    bool isFlag = getFacts(members[0]).range == NumberRange::flag;
    if (isFlag && numbers[members[0]] == 0)
      continue;
    printer << space << StringRef(key);
    space = " ";
    if (isFlag)
      continue;
    printer << (members.size() > 1 ? "(" : " ");
    llvm::interleaveComma(members, printer, [&](OptimizerNumber number) {
      printer.printFloat(APFloat(numbers[number]));
    });
    printer << (members.size() > 1 ? ")" : "");
  }
}

// What stands before an attribute of that kind on a state.
template <typename Attr>
static constexpr StringLiteral kKeyword = "";
template <>
constexpr StringLiteral kKeyword<ShardingAttr> = "sharded";
template <>
constexpr StringLiteral kKeyword<FlatAttr> = "flat";
template <>
constexpr StringLiteral kKeyword<PartAttr> = "part";
template <>
constexpr StringLiteral kKeyword<RecordAttr> = "source";
template <>
constexpr StringLiteral kKeyword<WeightAttr> = "weight";

template <typename Attr, typename Result>
static OptionalParseResult parseKind(OpAsmParser &parser, Result &result) {
  if (failed(parser.parseOptionalKeyword(kKeyword<Attr>)))
    return std::nullopt;
  Attr attribute;
  if (parser.parseCustomAttributeWithFallback(attribute))
    return failure();
  result = attribute;
  return success();
}

// An attribute of the first kind whose keyword comes next, if any does.
template <typename... Attr, typename Result>
static OptionalParseResult parseKinds(OpAsmParser &parser, Result &result) {
  OptionalParseResult parsed;
  (void)((parsed = parseKind<Attr>(parser, result)).has_value() || ...);
  return parsed;
}

// False: it is of none of these kinds.
template <typename... Attr>
static bool printKinds(OpAsmPrinter &printer, Attribute attribute) {
  auto print = [&](auto kind, StringRef keyword) {
    if (!kind)
      return false;
    printer << keyword << ' ';
    printer.printStrippedAttrOrType(kind);
    return true;
  };
  return (print(dyn_cast<Attr>(attribute), kKeyword<Attr>) || ...);
}

// `sharded <dim 0 over #shard>`, `flat <over #shard>`, `part <@flat at 96>`
static OptionalParseResult parsePlacement(OpAsmParser &parser,
                                          PlacementAttrInterface &placement) {
  return parseKinds<ShardingAttr, FlatAttr, PartAttr>(parser, placement);
}

static void printPlacement(OpAsmPrinter &printer, Operation *,
                           PlacementAttrInterface placement) {
  printKinds<ShardingAttr, FlatAttr, PartAttr>(printer, placement);
}

// `source <"record" at 0 : 52>`, `weight <"w">`, `init 1.0 : f32`
static OptionalParseResult parseFirstValue(OpAsmParser &parser,
                                           Attribute &value) {
  if (OptionalParseResult parsed =
          parseKinds<RecordAttr, WeightAttr>(parser, value);
      parsed.has_value())
    return parsed;
  if (succeeded(parser.parseOptionalKeyword("init")))
    return parser.parseAttribute(value);
  return std::nullopt;
}

static void printFirstValue(OpAsmPrinter &printer, Operation *,
                            Attribute value) {
  if (!printKinds<RecordAttr, WeightAttr>(printer, value))
    printer << "init " << value;
}

#define GET_OP_CLASSES
#include "ir/fsdp/Ops.cpp.inc"

void FsdpDialect::registerOps() {
  addOperations<
#define GET_OP_LIST
#include "ir/fsdp/Ops.cpp.inc"
      >();
}

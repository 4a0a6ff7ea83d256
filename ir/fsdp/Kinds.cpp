//===- Kinds.cpp - Rows of tables, by their names -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/fsdp/Fsdp.h"

using namespace mlir;
using namespace fsdp;

/// `rows` are facts with a name and a kind.
template <typename Rows>
static auto parseRow(AsmParser &parser, const Rows &rows)
    -> FailureOr<decltype(rows.begin()->kind)> {
  SMLoc loc = parser.getCurrentLocation();
  StringRef name;
  if (parser.parseKeyword(&name))
    return failure();
  std::string list;
  for (const auto &row : rows) {
    if (StringRef(row.name) == name)
      return row.kind;
    list.append(list.empty() ? "" : ", ").append(row.name);
  }
  parser.emitError(loc, "expected one of ")
      << list << ", found '" << name << "'";
  return failure();
}

FailureOr<OptimizerKind> fsdp::parseOptimizerKind(AsmParser &parser) {
  return parseRow(parser, getOptimizers());
}

FailureOr<ScheduleKind> fsdp::parseScheduleKind(AsmParser &parser) {
  return parseRow(parser, getSchedules());
}

DictionaryAttr fsdp::getNumbers(MLIRContext *context, OptimizerKind kind,
                                const OptimizerNumbers &numbers) {
  Builder builder(context);
  SmallVector<NamedAttribute> all;
  for (const OptimizerFacts::Number &each : getFacts(kind).numbers)
    all.push_back(
        builder.getNamedAttr(StringRef(getFacts(each.number).name),
                             builder.getF64FloatAttr(numbers[each.number])));
  return builder.getDictionaryAttr(all);
}

void fsdp::printGiven(AsmPrinter &printer, DictionaryAttr numbers) {
  printer << '{';
  llvm::interleaveComma(numbers, printer, [&](NamedAttribute each) {
    printer << each.getName().getValue() << " = ";
    printer.printAttributeWithoutType(each.getValue());
  });
  printer << '}';
}

void fsdp::readNumbers(DictionaryAttr attr, OptimizerNumbers &numbers) {
  if (!attr)
    return;
  for (const OptimizerNumberFacts &facts : getOptimizerNumbers())
    if (auto value = attr.getAs<FloatAttr>(StringRef(facts.name)))
      numbers[facts.number] = value.getValueAsDouble();
}

LogicalResult fsdp::verifyNumbers(function_ref<InFlightDiagnostic()> emitError,
                                  DictionaryAttr numbers) {
  if (!numbers)
    return success();
  for (NamedAttribute each : numbers) {
    auto facts = llvm::find_if(
        getOptimizerNumbers(), [&](const OptimizerNumberFacts &known) {
          return each.getName().getValue() == StringRef(known.name);
        });
    if (facts == getOptimizerNumbers().end())
      return emitError() << "expected numbers of an optimizer, found "
                         << each.getName();
    auto value = dyn_cast<FloatAttr>(each.getValue());
    if (!value || !value.getType().isF64() ||
        !facts->holds(value.getValueAsDouble()))
      return emitError() << "expected " << each.getName() << " to be a number "
                         << (facts->range == NumberRange::fromZero ? "from 0"
                             : facts->range == NumberRange::belowOne
                                 ? "from 0 to less than 1"
                                 : "that is 0 or 1")
                         << ", found " << each.getValue();
  }
  return success();
}

LogicalResult
fsdp::verifyScheduleNumbers(function_ref<InFlightDiagnostic()> emitError,
                            DictionaryAttr numbers) {
  if (!numbers)
    return success();
  for (NamedAttribute each : numbers) {
    const ScheduleNumberFacts *facts =
        findScheduleNumber(each.getName().getValue());
    if (!facts)
      return emitError() << "expected numbers of a schedule, found "
                         << each.getName();
    auto value = dyn_cast<FloatAttr>(each.getValue());
    if (!value || !value.getType().isF64() ||
        !facts->holds(value.getValueAsDouble()))
      return emitError() << "expected " << each.getName() << " to be a "
                         << facts->describe() << ", found " << each.getValue();
  }
  return success();
}

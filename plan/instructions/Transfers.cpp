//===- Transfers.cpp - What ranks bring each other ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/ProgramCheck.h"
#include "plan/ProgramText.h"

#include "plan/DType.h"
#include "plan/Shape.h"

#include <cmath>

using namespace fsdp;

std::optional<Flight> fsdp::flightOf(const plan::InstructionT &instruction) {
  std::optional<Flight> flight;
  visitBody(instruction, [&](const auto &op) {
    if constexpr (requires {
                    op.future;
                    op.outputs;
                  })
      flight.emplace(Flight{op.inputs, op.outputs, op.future});
  });
  return flight;
}

uint64_t fsdp::bytesOf(const plan::TransferT &transfer, const plan::PlanT &plan,
                       const plan::ProgramT &program) {
  uint64_t sum = 0;
  for (uint64_t part : membersOf(transfer, plan, program))
    sum += getTraffic(transfer.kind, part, plan.groups[transfer.group]->size);
  return sum;
}

std::vector<uint64_t> fsdp::membersOf(const plan::TransferT &transfer,
                                      const plan::PlanT &plan,
                                      const plan::ProgramT &program) {
  std::vector<uint64_t> bytes;
  const CollectiveFacts &facts = getFacts(transfer.kind);
  uint64_t ranks = plan.groups[transfer.group]->size;
  for (size_t i = 0; i < transfer.inputs.size(); ++i) {
    const plan::ValueT &part = *program.values[(
        isWholeGiven(facts.whole) ? transfer.outputs : transfer.inputs)[i]];
    plan::DType wire = program.values[transfer.inputs[i]]->dtype;
    uint64_t own = *checkedExtent(part.shape, {}, dtypeBytes(wire));
    bytes.push_back(facts.whole == Whole::both ? own / ranks : own);
  }
  return bytes;
}

void fsdp::listOperands(const plan::TransferT &op, Operands &operands) {
  bool isInPlace =
      op.kind <= CollectiveKind::MAX && getFacts(op.kind).isInPlace;
  operands.add(Access::read, op.inputs);
  operands.add(isInPlace ? Access::overwrite : Access::define, op.outputs);
}

/// Ranks are summed as the step's grains are.
static void checkTree(const plan::TransferT &op, const ProgramCheck &check) {
  if (!check.plan.training || check.plan.training->grains == 0)
    check.refuse("sums grains, which the step has none of");
  for (uint32_t input : op.inputs)
    if (!isFloat(check.value(input).dtype))
      check.refuse("sums " + check.name(input) +
                   " as grains, which is no floating-point number");
}

static void checkReduction(const plan::TransferT &op,
                           const ProgramCheck &check) {
  if (op.reduction == plan::Reduction::tree)
    checkTree(op, check);
  if (op.pre == 1 && op.post == 1)
    return;
  for (double factor : {op.pre, op.post})
    if (!std::isfinite(factor) || factor <= 0)
      check.refuse("divides by a number that is not finite and above zero");
  if (op.reduction != plan::Reduction::sum &&
      op.reduction != plan::Reduction::tree)
    check.refuse("divides what is no sum");
}

/// Only what is combined has a way in which it is, and is a gradient.
static void checkCombinesNothing(const plan::TransferT &op,
                                 const ProgramCheck &check) {
  if (op.reduction != plan::Reduction::sum || op.pre != 1 || op.post != 1 ||
      (!op.of.empty() && op.kind != CollectiveKind::all_to_all))
    check.refuse("combines nothing, but says how");
}

/// Where a member goes: a slot of its own, or its operand's place.
static void checkPlace(const plan::TransferT &op, size_t i,
                       const ProgramCheck &check) {
  uint32_t input = op.inputs[i], output = op.outputs[i];
  check.contiguous(input);
  const plan::ValueT &result = check.value(output);
  if (!getFacts(op.kind).isInPlace) {
    if (!check.isPlace(output) || !result.strides.empty())
      check.refuse("moves " + check.name(input) + " into " +
                   check.name(output) + ", which is no slot");
  } else if (result.place != plan::Place::view ||
             result.base != check.root(input) || !result.strides.empty()) {
    check.refuse("reduces into " + check.name(output) +
                 ", which is no view of its input");
  }
}

/// The back ends move rows: of the tensor `full`, each rank has its part.
static void checkRows(const plan::TransferT &op, uint32_t full, uint32_t part,
                      const ProgramCheck &check) {
  plan::DType from = check.value(full).dtype, to = check.value(part).dtype;
  bool widens = getFacts(op.kind).reduces && canWiden(from, to) &&
                op.reduction != plan::Reduction::max &&
                op.reduction != plan::Reduction::tree;
  if (from != to && !widens)
    check.refuse("has parts " + check.name(part) + " of " + check.name(full) +
                 ", which is of another element type");
  const plan::GroupT &ranks = check.group(op.group);
  check.split(full, part, /*dim=*/0, ranks);
  check.roomFor(full, check.value(part).shape[0] * ranks.size);
}

/// A part for each rank, and of each rank a part.
static void checkExchange(const plan::TransferT &op, uint32_t given,
                          uint32_t got, const ProgramCheck &check) {
  const plan::ValueT &from = check.value(given), &to = check.value(got);
  if (from.shape.empty() || from.dtype != to.dtype)
    check.refuse("exchanges " + check.name(given) + " for " + check.name(got) +
                 ", expected rows of one element type");
  int64_t ranks = check.group(op.group).size;
  std::vector<int64_t> expected = from.shape;
  expected[0] = shardRows(expected[0], ranks) * ranks;
  if (to.shape != expected)
    check.refuse("expects " + check.name(got) + " to have the rows of " +
                 check.name(given) + ", in " + std::to_string(ranks) +
                 " equal parts");
  check.roomFor(given, expected[0]);
}

void fsdp::verify(const plan::TransferT &op, const ProgramCheck &check) {
  check.enumerator(op.kind <= CollectiveKind::MAX);
  check.enumerator(op.purpose <= plan::Purpose::MAX);
  check.enumerator(op.stream <= plan::Stream::replicate);
  check.enumerator(op.reduction <= plan::Reduction::MAX);
  check.group(op.group);
  const CollectiveFacts &facts = getFacts(op.kind);
  if (facts.reduces)
    checkReduction(op, check);
  else
    checkCombinesNothing(op, check);
  if (op.inputs.empty() || op.inputs.size() != op.outputs.size() ||
      (!op.of.empty() && op.of.size() != op.inputs.size()))
    check.refuse("has not one output, or parameter, for each input");
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    checkPlace(op, i, check);
    if (facts.whole == Whole::neither)
      check.sameType(op.inputs[i], op.outputs[i]);
    else if (facts.whole == Whole::got)
      checkRows(op, op.outputs[i], op.inputs[i], check);
    else if (facts.whole == Whole::given)
      checkRows(op, op.inputs[i], op.outputs[i], check);
    else
      checkExchange(op, op.inputs[i], op.outputs[i], check);
  }
  for (uint32_t parameter : op.of)
    if (parameter >= check.plan.states.size())
      check.refuse("reduces the gradient of a state that does not exist");
}

InstructionText fsdp::print(const plan::TransferT &op,
                            const ProgramText &text) {
  std::string rest =
      !isReduction(op.kind)
          ? ""
          : std::string(" ") + plan::EnumNameReduction(op.reduction);
  rest += " " + quote(op.bucket) + "(" + text.uses(op.inputs) + ")";
  if (op.pre != 1)
    rest += " pre " + formatNumber(op.pre);
  if (op.post != 1)
    rest += " post " + formatNumber(op.post);
  rest += text.over(op.group);
  plan::Purpose usual =
      isReduction(op.kind) ? plan::Purpose::gradient : plan::Purpose::parameter;
  if (op.purpose != usual)
    rest += std::string(" for ") + plan::EnumNamePurpose(op.purpose);
  rest += std::string(" on ") + plan::EnumNameStream(op.stream);
  if (!op.of.empty())
    rest += " of [" +
            join(op.of, [&](uint32_t state) { return text.state(state); }) +
            "]";
  return {text.future(op.future), std::string(getName(op.kind)) + ".start",
          std::move(rest)};
}

void fsdp::listOperands(const plan::WaitT &, Operands &) {}

void fsdp::verify(const plan::WaitT &, const ProgramCheck &) {}

InstructionText fsdp::print(const plan::WaitT &op, const ProgramText &text) {
  return {text.promised(op.future), "wait", " " + text.future(op.future)};
}

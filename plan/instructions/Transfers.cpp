//===- Transfers.cpp - What ranks bring each other ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/ProgramCheck.h"
#include "plan/ProgramText.h"

#include "plan/DType.h"
#include "plan/Shape.h"

#include <cmath>

using namespace fsdp;

template <typename OpTy>
static TransferStart makeStart(CollectiveKind kind, const OpTy &op) {
  TransferStart start{kind,      op.bucket,  op.group, op.stream,
                      op.inputs, op.outputs, op.future};
  if constexpr (requires { op.reduction; }) {
    start.reduction = op.reduction;
    start.pre = op.pre;
    start.post = op.post;
  }
  return start;
}

TransferStart fsdp::startOf(const plan::AllGatherT &op) {
  return makeStart(CollectiveKind::allGather, op);
}
TransferStart fsdp::startOf(const plan::ReduceScatterT &op) {
  return makeStart(CollectiveKind::reduceScatter, op);
}
TransferStart fsdp::startOf(const plan::AllReduceT &op) {
  return makeStart(CollectiveKind::allReduce, op);
}
TransferStart fsdp::startOf(const plan::RotateT &op) {
  return makeStart(CollectiveKind::rotate, op);
}

std::optional<TransferStart>
fsdp::startOf(const plan::InstructionT &instruction) {
  std::optional<TransferStart> start;
  visitBody(instruction, [&](const auto &op) {
    if constexpr (requires { startOf(op); })
      start.emplace(startOf(op));
  });
  return start;
}

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

uint64_t TransferStart::bytes(const plan::PlanT &plan,
                              const plan::ProgramT &program) const {
  uint64_t sum = 0;
  for (uint64_t part : members(program))
    sum += getTraffic(kind, part, plan.groups[group]->size);
  return sum;
}

std::vector<uint64_t>
TransferStart::members(const plan::ProgramT &program) const {
  std::vector<uint64_t> bytes;
  bool scatters = kind == CollectiveKind::reduceScatter;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const plan::ValueT &part =
        *program.values[(scatters ? outputs : inputs)[i]];
    plan::DType wire = program.values[inputs[i]]->dtype;
    bytes.push_back(*checkedExtent(part.shape, {}, dtypeBytes(wire)));
  }
  return bytes;
}

/// The back ends move rows: of all tensors in `full`, each rank has its shard
/// in `shards`.
template <typename OpTy>
static void checkRows(const OpTy &op, const std::vector<uint32_t> &full,
                      const std::vector<uint32_t> &shards, const char *verb,
                      const ProgramCheck &check) {
  for (int32_t dim : op.dims)
    if (dim != 0)
      check.refuse("moves what is split on dim " + std::to_string(dim) +
                   "; expected dim 0");
  const plan::GroupT &ranks = check.group(op.group);
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    check.contiguous(op.inputs[i]);
    uint32_t output = op.outputs[i];
    if (!check.isPlace(output) || !check.value(output).strides.empty())
      check.refuse(std::string(verb) + " into " + check.name(output) +
                   ", which is no slot");
    plan::DType from = check.value(full[i]).dtype;
    plan::DType to = check.value(shards[i]).dtype;
    bool widens = false;
    if constexpr (requires { op.reduction; })
      widens = canWiden(from, to) && op.reduction != plan::Reduction::max &&
               op.reduction != plan::Reduction::tree;
    if (from != to && !widens)
      check.refuse(std::string(verb) + " " + check.name(op.inputs[i]) +
                   " into " + check.name(output) +
                   ", which is of another element type");
    check.split(full[i], shards[i], op.dims[i], ranks);
    check.roomFor(full[i], check.value(shards[i]).shape[0] * ranks.size);
  }
}

/// Ranks are summed as the step's grains are.
template <typename OpTy>
static void checkTree(const OpTy &op, const ProgramCheck &check) {
  if (!check.plan.training || check.plan.training->grains == 0)
    check.refuse("sums grains, which the step has none of");
  for (uint32_t input : op.inputs)
    if (!isFloat(check.value(input).dtype))
      check.refuse("sums " + check.name(input) +
                   " as grains, which is no floating-point number");
}

template <typename OpTy>
static void checkReduction(const OpTy &op, const ProgramCheck &check) {
  check.enumerator(op.reduction <= plan::Reduction::MAX);
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

static InstructionText printStart(const TransferStart &start,
                                  const ProgramText &text) {
  std::string rest =
      !isReduction(start.kind)
          ? ""
          : std::string(" ") + plan::EnumNameReduction(start.reduction);
  rest += " " + quote(start.bucket) + "(" + text.uses(start.inputs) + ")";
  if (start.pre != 1)
    rest += " pre " + formatNumber(start.pre);
  if (start.post != 1)
    rest += " post " + formatNumber(start.post);
  rest += text.over(start.group) + " on " + plan::EnumNameStream(start.stream);
  return {text.future(start.future),
          std::string(getName(start.kind)) + ".start", std::move(rest)};
}

void fsdp::listOperands(const plan::AllGatherT &op, Operands &operands) {
  operands.add(Access::read, op.inputs);
  operands.add(Access::define, op.outputs);
}

void fsdp::verify(const plan::AllGatherT &op, const ProgramCheck &check) {
  check.enumerator(op.stream <= plan::Stream::replicate);
  if (op.inputs.empty() || op.inputs.size() != op.outputs.size() ||
      op.inputs.size() != op.dims.size())
    check.refuse("has not one output and dim for each input");
  checkRows(op, op.outputs, op.inputs, "gathers", check);
}

InstructionText fsdp::print(const plan::AllGatherT &op,
                            const ProgramText &text) {
  return printStart(startOf(op), text);
}

void fsdp::listOperands(const plan::ReduceScatterT &op, Operands &operands) {
  operands.add(Access::read, op.inputs);
  operands.add(Access::define, op.outputs);
}

void fsdp::verify(const plan::ReduceScatterT &op, const ProgramCheck &check) {
  check.enumerator(op.stream <= plan::Stream::replicate);
  checkReduction(op, check);
  if (op.inputs.empty() || op.inputs.size() != op.outputs.size() ||
      op.inputs.size() != op.dims.size() ||
      (!op.of.empty() && op.of.size() != op.inputs.size()))
    check.refuse("has not one output, dim and parameter for each input");
  checkRows(op, op.inputs, op.outputs, "reduces", check);
  for (uint32_t parameter : op.of)
    if (parameter >= check.plan.states.size())
      check.refuse("reduces the gradient of a state that does not exist");
}

InstructionText fsdp::print(const plan::ReduceScatterT &op,
                            const ProgramText &text) {
  InstructionText start = printStart(startOf(op), text);
  if (!op.of.empty())
    start.rest +=
        " of [" +
        join(op.of, [&](uint32_t state) { return text.state(state); }) + "]";
  return start;
}

void fsdp::listOperands(const plan::AllReduceT &op, Operands &operands) {
  operands.add(Access::read, op.inputs);
  operands.add(Access::overwrite, op.outputs);
}

void fsdp::verify(const plan::AllReduceT &op, const ProgramCheck &check) {
  check.enumerator(op.stream <= plan::Stream::replicate);
  checkReduction(op, check);
  check.group(op.group);
  if (op.inputs.empty() || op.inputs.size() != op.outputs.size())
    check.refuse("has not one output for each input");
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    check.contiguous(op.inputs[i]);
    const plan::ValueT &result = check.value(op.outputs[i]);
    if (result.place != plan::Place::view ||
        result.base != check.root(op.inputs[i]) || !result.strides.empty())
      check.refuse("reduces into " + check.name(op.outputs[i]) +
                   ", which is no view of its input");
    check.sameType(op.inputs[i], op.outputs[i]);
  }
}

InstructionText fsdp::print(const plan::AllReduceT &op,
                            const ProgramText &text) {
  return printStart(startOf(op), text);
}

void fsdp::listOperands(const plan::RotateT &op, Operands &operands) {
  operands.add(Access::read, op.inputs);
  operands.add(Access::define, op.outputs);
}

void fsdp::verify(const plan::RotateT &op, const ProgramCheck &check) {
  check.enumerator(op.stream <= plan::Stream::replicate);
  check.group(op.group);
  if (op.inputs.empty() || op.inputs.size() != op.outputs.size())
    check.refuse("has not one output for each input");
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    check.contiguous(op.inputs[i]);
    uint32_t output = op.outputs[i];
    if (!check.isPlace(output) || !check.value(output).strides.empty())
      check.refuse("passes on into " + check.name(output) +
                   ", which is no slot");
    check.sameType(op.inputs[i], output);
  }
}

InstructionText fsdp::print(const plan::RotateT &op, const ProgramText &text) {
  return printStart(startOf(op), text);
}

void fsdp::listOperands(const plan::WaitT &, Operands &) {}

void fsdp::verify(const plan::WaitT &, const ProgramCheck &) {}

InstructionText fsdp::print(const plan::WaitT &op, const ProgramText &text) {
  return {text.promised(op.future), "wait", " " + text.future(op.future)};
}

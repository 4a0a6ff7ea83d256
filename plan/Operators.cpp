//===- Operators.cpp - What artifacts may call ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Operators.h"

#include "support/Error.h"

#include <unordered_set>

using namespace fsdp;
using plan::ArgKind;

std::string fsdp::fullName(std::string_view name, std::string_view overload) {
  std::string full(name);
  if (!overload.empty())
    full.append(".").append(overload);
  return full;
}

namespace {
struct AllowedOperator {
  std::string_view name, overload;
};
/// A table rather than a call for each, which takes compilers minutes.
constexpr AllowedOperator kAllowed[] = {
#define FSDP_OPERATOR(name, overload) {name, overload},
#include "plan/AllowedOperators.inc"
};
} // namespace

bool fsdp::isAllowedOperator(std::string_view name, std::string_view overload) {
  static const std::unordered_set<std::string> allowed = [] {
    std::unordered_set<std::string> names;
    for (const AllowedOperator &row : kAllowed)
      names.insert(fullName(row.name, row.overload));
    return names;
  }();
  return allowed.contains(fullName(name, overload));
}

bool CallOperands::has(size_t argument) const { return tensor(argument); }

const plan::ValueT *CallOperands::tensor(size_t argument) const {
  if (argument >= call.args.size() ||
      call.args[argument]->kind != ArgKind::tensor)
    return nullptr;
  return program.values[static_cast<size_t>(call.args[argument]->values[0])]
      .get();
}

std::vector<const plan::ValueT *> CallOperands::tensors(size_t argument) const {
  std::vector<const plan::ValueT *> list;
  if (argument < call.args.size() &&
      (call.args[argument]->kind == ArgKind::tensors ||
       call.args[argument]->kind == ArgKind::optional_tensors))
    for (int32_t value : call.args[argument]->values)
      list.push_back(value < 0
                         ? nullptr
                         : program.values[static_cast<size_t>(value)].get());
  return list;
}

const std::vector<int64_t> &CallOperands::integers(size_t argument) const {
  static const std::vector<int64_t> none;
  return argument < call.args.size() ? call.args[argument]->ints : none;
}

std::optional<double> CallOperands::number(size_t argument) const {
  if (argument < call.args.size() &&
      call.args[argument]->kind == ArgKind::number)
    return call.args[argument]->doubles[0];
  if (argument < call.args.size() &&
      call.args[argument]->kind == ArgKind::integer)
    return static_cast<double>(call.args[argument]->ints[0]);
  return std::nullopt;
}

void fsdp::verifyOperators(const plan::PlanT &plan, Trust trust) {
  for (const auto &op : plan.operators)
    if (!isAllowedOperator(op->name, op->overload))
      throw Error(ErrorId::ArtifactNotTrusted,
                  "the artifact calls '" + fullName(op->name, op->overload) +
                      "', which is none of the operators that only compute; "
                      "artifacts of fsdp-opt call no others");
  if (trust == Trust::own)
    return;
  for (const auto &program : plan.programs)
    for (const auto &instruction : program->instructions) {
      const plan::CallT *call = instruction->body.AsCall();
      if (!call)
        continue;
      const plan::OperatorT &op = *plan.operators[call->op];
      std::string name = fullName(op.name, op.overload);
      std::string problem =
          describeOperandProblem(name, CallOperands(*program, *call));
      if (problem.empty())
        continue;
      if (instruction->at >= 0)
        name += " of " + plan.locations[static_cast<size_t>(instruction->at)];
      throw Error(ErrorId::ArtifactNotTrusted,
                  "program '" + program->name + "': " + name + " " + problem +
                      "; the kernel relies on it. If you compiled the artifact "
                      "yourself, run it with --trust");
    }
}

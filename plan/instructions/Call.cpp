//===- Call.cpp - One LibTorch operator -----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/ProgramCheck.h"
#include "plan/ProgramText.h"

#include "plan/DType.h"
#include "plan/Operators.h"

#include <algorithm>

using namespace fsdp;
using plan::ArgKind;

void fsdp::listOperands(const plan::CallT &call, Operands &operands) {
  for (const auto &arg : call.args)
    for (int32_t value : arg->values)
      if (value != -1 || arg->kind != ArgKind::optional_tensors)
        operands.add(Access::read, value);
  for (int32_t result : call.results)
    operands.addOptional(Access::define, result);
}

static void checkArg(const plan::ArgT &arg, const ProgramCheck &check) {
  auto expect = [&](size_t values, size_t ints, size_t doubles) {
    if (arg.values.size() != values || arg.ints.size() != ints ||
        arg.doubles.size() != doubles)
      check.refuse("has an argument whose contents do not fit its kind");
  };
  switch (arg.kind) {
  case ArgKind::none:
  case ArgKind::text:
  case ArgKind::device:
  case ArgKind::layout:
    return expect(0, 0, 0);
  case ArgKind::tensor:
    return expect(1, 0, 0);
  case ArgKind::tensors:
  case ArgKind::optional_tensors:
    return expect(arg.values.size(), 0, 0);
  case ArgKind::integer:
  case ArgKind::boolean:
    return expect(0, 1, 0);
  case ArgKind::number:
    return expect(0, 0, 1);
  case ArgKind::integers:
  case ArgKind::booleans:
    return expect(0, arg.ints.size(), 0);
  case ArgKind::numbers:
    return expect(0, 0, arg.doubles.size());
  case ArgKind::complex:
    return expect(0, 0, 2);
  case ArgKind::dtype:
    expect(0, 1, 0);
    return check.enumerator(arg.ints[0] >= 0 &&
                            arg.ints[0] <=
                                static_cast<int64_t>(plan::DType::MAX));
  case ArgKind::memory_format:
    expect(0, 1, 0);
    return check.enumerator(arg.ints[0] >= 0 && arg.ints[0] <= 3);
  }
  check.refuse("has an argument of an unknown kind");
}

void fsdp::verify(const plan::CallT &call, const ProgramCheck &check) {
  if (call.op >= check.plan.operators.size())
    check.refuse("calls an operator that does not exist");
  std::vector<size_t> operands;
  for (const auto &arg : call.args) {
    checkArg(*arg, check);
    for (int32_t value : arg->values)
      if (value != -1)
        operands.push_back(check.root(value));
  }
  for (int32_t result : call.results) {
    if (result == -1)
      continue;
    const plan::ValueT &v = check.value(result);
    if (v.place == plan::Place::literal)
      check.refuse("defines the literal " + check.name(result) + " by a call");
    if (v.place == plan::Place::view &&
        std::ranges::find(operands, v.base) == operands.end())
      check.refuse("defines " + check.name(result) +
                   " as a view of no operand");
  }
}

static std::string printArg(const plan::ArgT &arg, const ProgramText &text) {
  auto integer = [](int64_t value) { return std::to_string(value); };
  auto boolean = [](int64_t value) -> std::string {
    return value ? "true" : "false";
  };
  switch (arg.kind) {
  case ArgKind::none:
    return "none";
  case ArgKind::tensor:
    return text.use(arg.values[0]);
  case ArgKind::tensors:
  case ArgKind::optional_tensors:
    return "[" + text.uses(arg.values) + "]";
  case ArgKind::integer:
    return integer(arg.ints[0]);
  case ArgKind::number:
    return formatNumber(arg.doubles[0]);
  case ArgKind::boolean:
    return boolean(arg.ints[0]);
  case ArgKind::text:
    return quote(arg.text);
  case ArgKind::integers:
    return "[" + join(arg.ints, integer) + "]";
  case ArgKind::numbers:
    return "[" + join(arg.doubles, formatNumber) + "]";
  case ArgKind::booleans:
    return "[" + join(arg.ints, boolean) + "]";
  case ArgKind::dtype:
    return std::string(dtypeName(static_cast<plan::DType>(arg.ints[0])));
  case ArgKind::device:
    return "device";
  case ArgKind::layout:
    return "strided";
  case ArgKind::memory_format: {
    static constexpr const char *kNames[] = {
        "contiguous", "preserve", "channels_last", "channels_last_3d"};
    return kNames[arg.ints[0]];
  }
  case ArgKind::complex:
    return formatNumber(arg.doubles[0]) + " + " + formatNumber(arg.doubles[1]) +
           "i";
  }
  return "?";
}

InstructionText fsdp::print(const plan::CallT &op, const ProgramText &text) {
  const plan::OperatorT &target = *text.plan.operators[op.op];
  return {
      text.definitions(op.results), fullName(target.name, target.overload),
      "(" +
          join(op.args, [&](const auto &arg) { return printArg(*arg, text); }) +
          ")" + (op.syncs ? " syncs" : "")};
}

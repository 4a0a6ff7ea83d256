//===- InPlaceTest.cpp - Results in the place of operands -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan lets an elementwise operator's result lie where one of its operands
// does. Tries that with every operator that LibTorch calls elementwise, over
// each of its operands, against a result that lies elsewhere.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/backends/Backends.h"
#include "runtime/device/Arena.h"
#include "runtime/device/PlannedAllocator.h"
#include "runtime/exec/Device.h"
#include "runtime/exec/Executor.h"
#include "runtime/exec/HostDevice.h"
#include "support/Error.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/from_blob.h>

#include <gtest/gtest.h>

#include <cstring>
#include <optional>

using namespace fsdp;
using plan::ArgKind;

namespace {

// More than one vector, and a rest.
constexpr int64_t kRows = 5, kColumns = 37, kElements = kRows * kColumns;
constexpr uint64_t kRoom = 1024;

std::unique_ptr<plan::ArgT> makeArg(ArgKind kind) {
  auto arg = std::make_unique<plan::ArgT>();
  arg->kind = kind;
  return arg;
}

std::unique_ptr<plan::ArgT> defaultOf(const c10::IValue &value) {
  if (value.isNone())
    return makeArg(ArgKind::none);
  std::unique_ptr<plan::ArgT> arg;
  if (value.isInt()) {
    arg = makeArg(ArgKind::integer);
    arg->ints = {value.toInt()};
  } else if (value.isDouble()) {
    arg = makeArg(ArgKind::number);
    arg->doubles = {value.toDouble()};
  } else if (value.isBool()) {
    arg = makeArg(ArgKind::boolean);
    arg->ints = {value.toBool()};
  } else if (value.isString()) {
    arg = makeArg(ArgKind::text);
    arg->text = value.toStringRef();
  }
  return arg;
}

/// One call of `schema` on tensors of one type, each in a slot of its own, with
/// the result in slot `resultSlot`.
struct Case {
  plan::PlanT plan;
  int tensors = 0;

  /// False if there are arguments that this test cannot make.
  bool build(const c10::FunctionSchema &schema) {
    plan.operators.push_back(std::make_unique<plan::OperatorT>());
    plan.operators[0]->name = schema.name();
    plan.operators[0]->overload = schema.overload_name();
    plan.programs.push_back(std::make_unique<plan::ProgramT>());
    plan::CallT call;
    for (const c10::Argument &argument : schema.arguments()) {
      c10::TypePtr type = argument.type();
      std::unique_ptr<plan::ArgT> arg;
      if (type->isSubtypeOf(*c10::TensorType::get())) {
        arg = makeArg(ArgKind::tensor);
        arg->values = {tensors};
        addValue(static_cast<uint64_t>(tensors++));
      } else if (argument.default_value()) {
        arg = defaultOf(*argument.default_value());
      } else if (type->isSubtypeOf(*c10::NumberType::get()) ||
                 type->kind() == c10::TypeKind::FloatType) {
        arg = makeArg(ArgKind::number);
        arg->doubles = {0.5};
      } else if (type->kind() == c10::TypeKind::OptionalType) {
        arg = makeArg(ArgKind::none);
      } else if (type->kind() == c10::TypeKind::BoolType) {
        arg = makeArg(ArgKind::boolean);
        arg->ints = {1};
      }
      if (!arg)
        return false;
      call.args.push_back(std::move(arg));
    }
    if (tensors == 0)
      return false;
    call.results = {tensors};
    addValue(static_cast<uint64_t>(tensors));
    plan.programs[0]->results.push_back(std::make_unique<plan::BindingT>());
    plan.programs[0]->results[0]->value = static_cast<uint32_t>(tensors);
    auto instruction = std::make_unique<plan::InstructionT>();
    instruction->body.Set(std::move(call));
    plan.programs[0]->instructions.push_back(std::move(instruction));
    return true;
  }

  void addValue(uint64_t slot) {
    auto value = std::make_unique<plan::ValueT>();
    value->shape = {kRows, kColumns};
    value->offset = slot * kRoom;
    value->bytes = kElements * sizeof(float);
    plan.programs[0]->values.push_back(std::move(value));
  }

  /// The result, made in the second of two steps. Throws fsdp::Error.
  std::vector<float> run(int resultSlot) {
    plan.programs[0]->values.back()->offset =
        static_cast<uint64_t>(resultSlot) * kRoom;
    Arena arena(static_cast<uint64_t>(tensors + 1) * kRoom);
    RankMemory memory;
    auto fabrics = findBackend("fake").connect({});
    Transfers transfers(plan, *fabrics[0]);
    auto device = makeHostDevice(*fabrics[0]);
    Executor executor({.plan = plan,
                       .arenas = arena,
                       .memory = memory,
                       .transfers = transfers,
                       .shared = nullptr,
                       .rank = 0,
                       .device = *device},
                      *plan.programs[0]);
    std::vector<float> result(kElements);
    for (uint64_t step = 0; step < 2; ++step) {
      for (int i = 0; i < tensors; ++i)
        for (int64_t j = 0; j < kElements; ++j) {
          float value = static_cast<float>(1 + (j * 7 + i * 13) % 29) / 32;
          std::memcpy(arena.at(i * kRoom + j * sizeof(float)), &value,
                      sizeof(float));
        }
      executor.run(step);
    }
    missed = memory.missedBytes();
    std::memcpy(result.data(), arena.at(resultSlot * kRoom),
                kElements * sizeof(float));
    return result;
  }

  uint64_t missed = 0; ///< bytes that the second step took from the heap
};

TEST(InPlace, ElementwiseOperatorsMayOverwriteAnyOperand) {
  installPlannedAllocator();
  int tried = 0;
  for (const c10::OperatorName &name :
       c10::Dispatcher::singleton().getAllOpNames()) {
    auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || !name.name.starts_with("aten::") ||
        !op->hasTag(at::Tag::pointwise) || op->schema().is_mutable() ||
        op->schema().returns().size() != 1)
      continue;
    Case each;
    if (!each.build(op->schema()))
      continue;
    std::vector<float> expected;
    try {
      expected = each.run(each.tensors);
    } catch (const Error &) {
      continue; // wants other types, or gives one
    }
    for (int operand = 0; operand < each.tensors; ++operand) {
      std::vector<float> found = each.run(operand);
      EXPECT_EQ(
          std::memcmp(found.data(), expected.data(), kElements * sizeof(float)),
          0)
          << name << " over operand " << operand;
      ++tried;
    }
  }
  EXPECT_GT(tried, 150);
}

TEST(InPlace, NothingIsMadeBesideAndCopied) {
  installPlannedAllocator();
  for (const char *name : {"aten::add", "aten::mul"}) {
    Case each;
    ASSERT_TRUE(each.build(c10::Dispatcher::singleton()
                               .findSchemaOrThrow(name, "Tensor")
                               .schema()));
    for (int slot = 0; slot <= each.tensors; ++slot) {
      each.run(slot);
      EXPECT_EQ(each.missed, 0u) << name << " in slot " << slot;
    }
  }
}

} // namespace

//===- SmallPlan.h - Programs of a few calls, by hand -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_RUNTIME_SMALLPLAN_H
#define FSDP_TEST_UNIT_RUNTIME_SMALLPLAN_H

#include "plan/DType.h"
#include "plan/plan_generated.h"

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace fsdp::test {

/// Programs whose values each have a place of their own, in one arena.
class SmallPlan {
public:
  plan::PlanT plan;

  /// What is added from now on is added to it.
  void beginProgram(const std::string &name) {
    plan.programs.push_back(std::make_unique<plan::ProgramT>());
    program().name = name;
  }

  /// A tensor without gaps; its number.
  int32_t add(plan::DType dtype, std::vector<int64_t> shape) {
    auto value = std::make_unique<plan::ValueT>();
    value->dtype = dtype;
    value->bytes = dtypeBytes(dtype);
    for (int64_t size : shape)
      value->bytes *= static_cast<uint64_t>(size);
    value->shape = std::move(shape);
    value->offset = end;
    end += (value->bytes + 511) / 512 * 512;
    program().values.push_back(std::move(value));
    return static_cast<int32_t>(program().values.size() - 1);
  }
  /// One that lies where that of another program lies.
  int32_t addAt(uint64_t offset, plan::DType dtype,
                std::vector<int64_t> shape) {
    int32_t value = add(dtype, std::move(shape));
    program().values[static_cast<size_t>(value)]->offset = offset;
    return value;
  }
  /// A constant of zeros.
  int32_t addZeros(plan::DType dtype, std::vector<int64_t> shape) {
    int32_t number = add(dtype, std::move(shape));
    plan::ValueT &value = *program().values[static_cast<size_t>(number)];
    value.place = plan::Place::literal;
    value.literal.resize(value.bytes);
    return number;
  }
  uint64_t offsetOf(int32_t value) {
    return program().values[static_cast<size_t>(value)]->offset;
  }

  /// The program gives it to somebody.
  void give(int32_t value) {
    auto binding = std::make_unique<plan::BindingT>();
    binding->value = static_cast<uint32_t>(value);
    program().results.push_back(std::move(binding));
  }

  using Arg = std::unique_ptr<plan::ArgT>;
  static Arg tensor(int32_t value) {
    Arg arg = make(plan::ArgKind::tensor);
    arg->values = {value};
    return arg;
  }
  static Arg none() { return make(plan::ArgKind::none); }
  static Arg integer(int64_t value) {
    return integers(plan::ArgKind::integer, {value});
  }
  static Arg boolean(bool value) {
    return integers(plan::ArgKind::boolean, {value});
  }
  static Arg booleans(std::vector<int64_t> values) {
    return integers(plan::ArgKind::booleans, std::move(values));
  }
  static Arg text(const std::string &value) {
    Arg arg = make(plan::ArgKind::text);
    arg->text = value;
    return arg;
  }
  static Arg number(double value) {
    Arg arg = make(plan::ArgKind::number);
    arg->doubles = {value};
    return arg;
  }

  template <typename... Args>
  void call(const std::string &name, const std::string &overload,
            std::vector<int32_t> results, Args... args) {
    plan::CallT call;
    call.op = static_cast<uint32_t>(plan.operators.size());
    plan.operators.push_back(std::make_unique<plan::OperatorT>());
    plan.operators.back()->name = name;
    plan.operators.back()->overload = overload;
    (call.args.push_back(std::move(args)), ...);
    call.results = std::move(results);
    instruction(std::move(call));
  }
  void copy(int32_t from, int32_t to) {
    plan::CopyT copy;
    copy.from = static_cast<uint32_t>(from);
    copy.to = static_cast<uint32_t>(to);
    instruction(std::move(copy));
  }

  template <typename Body>
  void instruction(Body body) {
    auto made = std::make_unique<plan::InstructionT>();
    made->body.Set(std::move(body));
    program().instructions.push_back(std::move(made));
  }

  uint64_t bytes() const { return end; }

private:
  plan::ProgramT &program() { return *plan.programs.back(); }
  static Arg make(plan::ArgKind kind) {
    Arg arg = std::make_unique<plan::ArgT>();
    arg->kind = kind;
    return arg;
  }
  static Arg integers(plan::ArgKind kind, std::vector<int64_t> values) {
    Arg arg = make(kind);
    arg->ints = std::move(values);
    return arg;
  }

  uint64_t end = 0;
};

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_SMALLPLAN_H

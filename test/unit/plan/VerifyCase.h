//===- VerifyCase.h - A sample that breaks one rule -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_PLAN_VERIFYCASE_H
#define FSDP_TEST_UNIT_PLAN_VERIFYCASE_H

#include "test/unit/plan/SamplePlan.h"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>

namespace fsdp::test {

struct Case {
  const char *name;
  std::function<void(plan::PlanT &)> damage;
  const char *message;
};

/// Whether the verifier refuses what a case has damaged.
class VerifyRule : public testing::TestWithParam<Case> {};

inline std::string nameOf(const testing::TestParamInfo<Case> &info) {
  return info.param.name;
}

/// The n-th instruction of a kind in the sample.
template <typename T>
T &body(plan::PlanT &plan, size_t n = 0) {
  for (auto &instruction : plan.programs[0]->instructions)
    if (instruction->body.type == plan::BodyUnionTraits<T>::enum_value &&
        n-- == 0)
      return *static_cast<T *>(instruction->body.value);
  throw std::logic_error("the sample has no such instruction");
}

/// The first transfer of a kind in the sample.
inline plan::TransferT &transfer(plan::PlanT &plan, plan::CollectiveKind kind) {
  for (auto &instruction : plan.programs[0]->instructions)
    if (plan::TransferT *op = instruction->body.AsTransfer();
        op && op->kind == kind)
      return *op;
  throw std::logic_error("the sample has no such transfer");
}

inline plan::ValueT &value(plan::PlanT &plan, size_t index) {
  return *plan.programs[0]->values[index];
}

template <typename T>
void insert(plan::PlanT &plan, size_t at, T body) {
  auto &list = plan.programs[0]->instructions;
  list.insert(list.begin() + static_cast<ptrdiff_t>(at),
              std::make_unique<plan::InstructionT>());
  list[at]->body.Set(std::move(body));
}

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_PLAN_VERIFYCASE_H

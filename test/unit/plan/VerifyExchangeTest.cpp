//===- VerifyExchangeTest.cpp - Parts that ranks exchange and sum ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Instructions.h"
#include "plan/Verify.h"

#include "test/unit/plan/VerifyCase.h"

using namespace fsdp;
using namespace fsdp::plan;
using namespace fsdp::test;

namespace {

/// Lets the two ranks exchange the rows of what they have of the first state,
/// and sum what comes.
TransferT &addExchange(PlanT &plan) {
  ProgramT &program = *plan.programs[0];
  auto add = [&](std::vector<int64_t> shape, uint64_t bytes) {
    auto made = std::make_unique<ValueT>();
    made->shape = std::move(shape);
    made->offset = plan.memory->peak;
    made->bytes = bytes;
    plan.memory->peak += 128;
    program.values.push_back(std::move(made));
    return static_cast<uint32_t>(program.values.size() - 1);
  };
  TransferT exchange;
  exchange.kind = CollectiveKind::all_to_all;
  exchange.purpose = Purpose::gradient;
  exchange.bucket = "fc";
  exchange.stream = Stream::reduce;
  exchange.inputs = {program.arguments[0]->value};
  exchange.outputs = {add({2, 2}, 16)};
  exchange.of = {0};
  exchange.future = program.futures++;
  WaitT wait;
  wait.future = exchange.future;
  SumPartsT sum;
  sum.input = exchange.outputs[0];
  sum.output = add({1, 2}, 8);
  sum.parts = 2;
  sum.post = 2;
  insert(plan, 0, std::move(sum));
  insert(plan, 0, std::move(wait));
  insert(plan, 0, std::move(exchange));
  verifyPlan(plan);
  return transfer(plan, CollectiveKind::all_to_all);
}

SumPartsT &addSum(PlanT &plan) {
  addExchange(plan);
  return body<SumPartsT>(plan);
}

const Case kCases[] = {
    {"ExchangeReduction",
     [](PlanT &p) { addExchange(p).reduction = Reduction::avg; },
     "combines nothing, but says how"},
    {"ExchangeDivisor", [](PlanT &p) { addExchange(p).pre = 2; },
     "combines nothing, but says how"},
    {"ExchangeOfNothing", [](PlanT &p) { addExchange(p).of = {99}; },
     "a state that does not exist"},
    {"ExchangeShape",
     [](PlanT &p) { value(p, addExchange(p).outputs[0]).shape = {4, 1}; },
     "in 2 equal parts"},
    {"ExchangeType",
     [](PlanT &p) { value(p, addExchange(p).outputs[0]).dtype = DType::i32; },
     "rows of one element type"},
    {"SumOfNoParts", [](PlanT &p) { addSum(p).parts = 0; },
     "to be 0 parts like"},
    {"SumOfOtherParts", [](PlanT &p) { addSum(p).parts = 3; },
     "to be 3 parts like"},
    {"SumShape", [](PlanT &p) { value(p, addSum(p).output).shape = {2, 1}; },
     "to be 2 parts like"},
    {"SumType", [](PlanT &p) { value(p, addSum(p).output).dtype = DType::i32; },
     "expected f32 of it"},
    {"SumDivisor", [](PlanT &p) { addSum(p).post = 0; },
     "not finite and above zero"},
};

INSTANTIATE_TEST_SUITE_P(Exchanges, VerifyRule, testing::ValuesIn(kCases),
                         nameOf);

TEST(Exchange, MovesAPartForEachRank) {
  PlanT plan = samplePlan();
  const TransferT &exchange = addExchange(plan);
  const ProgramT &program = *plan.programs[0];
  EXPECT_EQ(membersOf(exchange, plan, program), std::vector<uint64_t>{8});
  EXPECT_EQ(bytesOf(exchange, plan, program), 16u);
}

} // namespace

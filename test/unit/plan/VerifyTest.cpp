//===- VerifyTest.cpp - Every rule of the plan's verifier -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Verify.h"

#include "plan/Schedule.h"
#include "support/Error.h"
#include "support/Optimizers.h"
#include "support/Schedules.h"
#include "test/unit/plan/VerifyCase.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

using namespace fsdp;
using namespace fsdp::plan;
using namespace fsdp::test;

namespace {

/// Lets the first state come from a weights file that just holds it.
WeightT &weight(PlanT &plan) {
  StateT &state = *plan.states[0];
  state.source.reset();
  state.init.clear();
  state.weight = std::make_unique<WeightT>();
  state.weight->names = {"w"};
  state.weight->file = 0;
  state.weight->dtype = DType::bf16;
  state.weight->bytes = 2;
  for (int64_t size : state.shape)
    state.weight->bytes *= size;
  plan.weights.push_back(std::make_unique<WeightsFileT>());
  plan.weights[0]->bytes = state.weight->bytes;
  verifyPlan(plan);
  return *state.weight;
}

/// A program that takes the sample's arguments and calls the learning rate,
/// a number, the loss.
ProgramT &addValidation(PlanT &plan) {
  plan.validation = std::make_unique<ValidationT>();
  plan.programs.push_back(std::make_unique<ProgramT>());
  ProgramT &program = *plan.programs.back(), &train = *plan.programs[0];
  program.name = "eval/step";
  program.kind = ProgramKind::eval;
  for (const auto &each : train.arguments) {
    program.arguments.push_back(std::make_unique<BindingT>(*each));
    program.arguments.back()->value =
        static_cast<uint32_t>(program.values.size());
    program.values.push_back(
        std::make_unique<ValueT>(*train.values[each->value]));
  }
  program.results.push_back(std::make_unique<BindingT>());
  program.results.back()->value = program.arguments[4]->value;
  program.results.back()->metric = "loss";
  verifyPlan(plan);
  return program;
}

/// The sample's parts: the shards of a parameter and of its average, which its
/// gather and reduction hold from the first and the seventh instruction on; a
/// number that is a literal; and the gradient.
constexpr uint32_t kShard = 0, kAverage = 1, kLiteral = 6, kGradient = 10;

/// Sums a value and itself in its place.
void insertSum(PlanT &plan, size_t at, uint32_t value) {
  ProgramT &program = *plan.programs[0];
  AccumulateT sum;
  sum.gradient = sum.into = value;
  sum.output = static_cast<uint32_t>(program.values.size());
  auto view = std::make_unique<ValueT>();
  view->shape = program.values[value]->shape;
  view->place = Place::view;
  view->base = value;
  program.values.push_back(std::move(view));
  insert(plan, at, std::move(sum));
}

/// While the shard is in flight.
void insertUpdate(PlanT &plan, uint32_t parameter, uint32_t gradient) {
  UpdateT sgd;
  sgd.kind = static_cast<uint8_t>(OptimizerKind::sgd);
  sgd.numbers = {0, 0, 0};
  sgd.params = {parameter};
  sgd.grads = {gradient};
  sgd.lr = 4;
  insert(plan, 1, std::move(sgd));
}

/// Of the parameter by the gradient, which is its own.
void insertMaxima(PlanT &plan, std::vector<uint32_t> moments,
                  std::vector<uint32_t> scales) {
  ProgramT &program = *plan.programs[0];
  auto found = std::make_unique<ValueT>();
  found->shape = {1};
  found->place = Place::slot;
  found->offset = 1280;
  found->bytes = 4;
  BlockMaximaT maxima;
  maxima.kind = static_cast<uint8_t>(OptimizerKind::sgd);
  maxima.numbers = {0.9, 0, 0};
  maxima.params = maxima.grads = {0};
  maxima.moments = std::move(moments);
  maxima.scales = std::move(scales);
  maxima.of = {0};
  maxima.output = static_cast<uint32_t>(program.values.size());
  program.values.push_back(std::move(found));
  insert(plan, 0, std::move(maxima));
}

/// Rows of the gradient that differ by rank, in place of a rank's shard of it.
void selectInstead(PlanT &plan, int32_t dim, std::vector<int64_t> starts) {
  for (auto &instruction : plan.programs[0]->instructions)
    if (ShardT *shard = instruction->body.AsShard()) {
      SelectRowsT select;
      select.input = shard->input;
      select.output = shard->output;
      select.dim = dim;
      select.starts = std::move(starts);
      instruction->body.Set(std::move(select));
      return;
    }
}

void swapInstructions(PlanT &plan, size_t a, size_t b) {
  auto &list = plan.programs[0]->instructions;
  std::swap(list[a], list[b]);
}

TEST(Verify, RowsMayDifferByRank) {
  PlanT plan = test::samplePlan();
  selectInstead(plan, 0, {0, 1});
  EXPECT_NO_THROW(verifyPlan(plan));
}

TEST_P(VerifyRule, IsChecked) {
  PlanT plan = test::samplePlan();
  ASSERT_NO_THROW(verifyPlan(plan));
  GetParam().damage(plan);
  try {
    verifyPlan(plan);
    FAIL() << "was accepted";
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), ErrorId::ArtifactCorrupted);
    EXPECT_THAT(error.what(), testing::HasSubstr(GetParam().message));
  }
}

const Case kCases[] = {
    {"Memory", [](PlanT &p) { p.memory.reset(); }, "no memory"},
    {"Arena", [](PlanT &p) { p.memory->peak = ~0ull; }, "than any machine"},
    {"AxisSize", [](PlanT &p) { p.mesh[0]->size = 0; }, "mesh axis 'shard'"},
    {"GroupSize", [](PlanT &p) { p.groups[0]->size = 3; }, "does not divide"},
    {"GroupStride", [](PlanT &p) { p.groups[0]->stride = 0; },
     "does not divide"},
    {"DataParallel", [](PlanT &p) { p.data_parallel = 3; }, "data_parallel"},
    {"StateRole", [](PlanT &p) { p.states[0]->role = Role(99); },
     "unknown role"},
    {"StateShape", [](PlanT &p) { p.states[0]->shape = {-3, 2}; },
     "no valid shape"},
    {"StateOverflow",
     [](PlanT &p) { p.states[0]->shape = {1l << 40, 1l << 40}; },
     "no valid shape"},
    {"StateDim", [](PlanT &p) { p.states[0]->shard_dim = 2; }, "on a dim"},
    {"StateGroup", [](PlanT &p) { p.states[0]->group = 1; }, "over a group"},
    {"StateBytes", [](PlanT &p) { p.states[0]->bytes = 24; },
     "states 24 bytes"},
    {"StateOffset", [](PlanT &p) { p.states[0]->offset = 4090; },
     "does not lie in the arena"},
    {"TwoFirstValues",
     [](PlanT &p) {
       p.states[0]->init.resize(4);
       p.states[0]->initializer = std::make_unique<InitializerT>();
     },
     "more than one first value"},
    {"InitializerArguments",
     [](PlanT &p) {
       p.states[0]->source.reset();
       p.states[0]->init.clear();
       p.states[0]->initializer = std::make_unique<InitializerT>();
     },
     "needs 2 numbers"},
    {"WeightName",
     [](PlanT &p) {
       p.states[0]->source.reset();
       p.states[0]->init.clear();
       p.states[0]->weight = std::make_unique<WeightT>();
     },
     "without a name"},
    {"WeightFile", [](PlanT &p) { weight(p).file = 1; },
     "file that does not exist"},
    {"WeightType", [](PlanT &p) { weight(p).dtype = DType::i64; },
     "does not convert"},
    {"WeightBytes", [](PlanT &p) { ++weight(p).bytes; }, "not its shape"},
    {"WeightOffset", [](PlanT &p) { weight(p).offset = 100; },
     "beyond the end of its file"},
    {"StateOverlap", [](PlanT &p) { p.states[1]->offset = 8; }, "overlaps"},
    {"StateName", [](PlanT &p) { p.states[1]->name = "w"; }, "name of its own"},
    {"StateOf", [](PlanT &p) { p.states[1]->of = 1; }, "belongs to a state"},
    {"StateInit", [](PlanT &p) { p.states[4]->init = {1}; }, "initial value"},
    {"RecordEnd", [](PlanT &p) { p.states[0]->source->offset = 4090; },
     "beyond the end of the model file"},
    {"RecordBytes", [](PlanT &p) { p.states[0]->source->bytes = 8; },
     "does not hold its shape"},
    {"RecordStrides", [](PlanT &p) { p.states[0]->source->strides = {1, 100}; },
     "does not hold its shape"},
    {"RecordModel", [](PlanT &p) { p.model.reset(); }, "names none"},
    {"InputType", [](PlanT &p) { p.inputs[0]->shape = {-1}; }, "no valid type"},
    {"Training", [](PlanT &p) { p.training->gradient_accumulation_steps = 0; },
     "out of range"},
    {"RateIndex", [](PlanT &p) { p.training->rates = {99}; },
     "learning rate that does not exist"},
    {"RateShape", [](PlanT &p) { p.training->rates = {0}; },
     "no number with a first value"},
    {"ScheduleKind",
     [](PlanT &p) {
       p.training->schedule = std::make_unique<ScheduleT>();
       p.training->schedule->kind = 99;
     },
     "unknown kind"},
    {"ScheduleWarmup",
     [](PlanT &p) {
       p.training->schedule = std::make_unique<ScheduleT>();
       p.training->schedule->kind = uint8_t(ScheduleKind::linear);
       p.training->schedule->warmup_steps = 3;
       p.training->schedule->total_steps = 2;
     },
     "does not fit"},
    {"ScheduleNumber",
     [](PlanT &p) {
       p.training->schedule = std::make_unique<ScheduleT>();
       p.training->schedule->kind = uint8_t(ScheduleKind::cosine);
       setNumber(*p.training->schedule, ScheduleNumber::num_cycles, -1);
     },
     "expected a number from 0 for num_cycles"},
    {"NormOrder", [](PlanT &p) { p.training->norm_order = std::nan(""); },
     "out of range"},
    {"Parts", [](PlanT &p) { p.training->gradient_accumulation_steps = 2; },
     "does not fit a step of 2 micro-batches"},
    {"PartName", [](PlanT &p) { p.programs[0]->part = StepPart::last; },
     "does not fit a step of 1 micro-batches"},
    {"ProgramName",
     [](PlanT &p) {
       p.programs.push_back(std::make_unique<ProgramT>(*p.programs[0]));
     },
     "name of its own"},
    {"ValueOffset", [](PlanT &p) { value(p, 7).offset = 4092; },
     "outside of the arena"},
    {"ValueBytes", [](PlanT &p) { value(p, 9).bytes = 0; }, "less room"},
    {"ValueStrides", [](PlanT &p) { value(p, 8).strides = {1}; },
     "no valid shape"},
    {"ViewExtent", [](PlanT &p) { value(p, 8).strides = {100, 1}; },
     "less room"},
    {"ViewBase", [](PlanT &p) { value(p, 8).base = 99; },
     "of what is no storage"},
    {"ViewOfView", [](PlanT &p) { value(p, 8).base = 12; },
     "of what is no storage"},
    {"Literal", [](PlanT &p) { value(p, 6).literal = {1}; }, "another size"},
    {"StatePlace", [](PlanT &p) { value(p, 0).offset = 128; }, "beside state"},
    {"StateIndex", [](PlanT &p) { value(p, 0).state = 70; }, "does not exist"},
    {"ArgumentBoth", [](PlanT &p) { p.programs[0]->arguments[0]->input = 0; },
     "exactly one"},
    {"ArgumentState", [](PlanT &p) { p.programs[0]->arguments[0]->state = 1; },
     "to another state"},
    {"ArgumentInput", [](PlanT &p) { p.programs[0]->arguments[5]->input = 1; },
     "input that does not exist"},
    {"ArgumentType", [](PlanT &p) { p.inputs[0]->dtype = DType::i64; },
     "another type"},
    {"ResultState", [](PlanT &p) { p.programs[0]->results[1]->state = 1; },
     "elsewhere than in its state"},
    {"ResultBoth", [](PlanT &p) { p.programs[0]->results[0]->state = 1; },
     "exactly one"},
    {"ResultMetric", [](PlanT &p) { p.programs[0]->results[0]->metric = "m"; },
     "exactly one"},
    {"MetricShape",
     [](PlanT &p) {
       plan::BindingT &result = *p.programs[0]->results[0];
       result.output.clear();
       result.metric = "m";
       result.value = 5;
     },
     "reports 'm', which is no number"},
    {"NormsShape",
     [](PlanT &p) {
       plan::BindingT &result = *p.programs[0]->results[0];
       result.output.clear();
       result.norms = {"grad/a", "grad/b", "grad/c"};
     },
     "not one number for each"},
    {"Location", [](PlanT &p) { p.programs[0]->instructions[0]->at = 1; },
     "a location"},
    {"Operator", [](PlanT &p) { body<CallT>(p).op = 3; }, "calls an operator"},
    {"ArgContents", [](PlanT &p) { body<CallT>(p, 1).args[3]->ints.clear(); },
     "do not fit its kind"},
    {"ArgDType", [](PlanT &p) { body<CallT>(p, 1).args[10]->ints = {99}; },
     "unknown enumerator"},
    {"ArgFormat", [](PlanT &p) { body<CallT>(p, 1).args[13]->ints = {4}; },
     "unknown enumerator"},
    {"ArgValue", [](PlanT &p) { body<CallT>(p).args[0]->values = {55}; },
     "names value %55"},
    {"ArgUndefined", [](PlanT &p) { body<CallT>(p).args[0]->values = {10}; },
     "before it is defined"},
    {"ResultTwice", [](PlanT &p) { body<CallT>(p, 1).results = {9, 9}; },
     "defines %9 twice"},
    {"ResultView", [](PlanT &p) { value(p, 8).base = 5; },
     "view of no operand"},
    {"UseAfterFree", [](PlanT &p) { swapInstructions(p, 3, 4); },
     "after it was freed"},
    {"GatherBeforeWait", [](PlanT &p) { swapInstructions(p, 1, 2); },
     "uses %7 before it is defined"},
    {"GatherArity",
     [](PlanT &p) { transfer(p, CollectiveKind::all_gather).outputs = {}; },
     "one output, or parameter,"},
    {"GatherReduction",
     [](PlanT &p) {
       transfer(p, CollectiveKind::all_gather).reduction = Reduction::avg;
     },
     "combines nothing, but says how"},
    {"GatherOfGradients",
     [](PlanT &p) { transfer(p, CollectiveKind::all_gather).of = {0}; },
     "combines nothing, but says how"},
    {"Collective",
     [](PlanT &p) {
       transfer(p, CollectiveKind::all_gather).kind = CollectiveKind(9);
     },
     "unknown enumerator"},
    {"Purpose",
     [](PlanT &p) {
       transfer(p, CollectiveKind::all_gather).purpose = Purpose(9);
     },
     "unknown enumerator"},
    {"GatherShape", [](PlanT &p) { value(p, 7).shape = {7, 2}; }, "less room"},
    {"GatherRoom", [](PlanT &p) { value(p, 7).bytes = 24; },
     "needs room for 4 rows"},
    {"GatherPlace", [](PlanT &p) { transfer(p, CollectiveKind::all_gather).outputs = {8}; },
     "no slot"},
    {"GatherGroup", [](PlanT &p) { transfer(p, CollectiveKind::all_gather).group = 1; },
     "a group that does not exist"},
    {"GatherStream", [](PlanT &p) { transfer(p, CollectiveKind::all_gather).stream = Stream(9); },
     "unknown enumerator"},
    {"FutureIndex", [](PlanT &p) { transfer(p, CollectiveKind::all_gather).future = 5; },
     "starts a future"},
    {"FutureTwice", [](PlanT &p) { transfer(p, CollectiveKind::reduce_scatter).future = 0; },
     "starts a future"},
    {"WaitTwice", [](PlanT &p) { body<WaitT>(p, 1).future = 0; },
     "waits for a future"},
    {"NeverWaited",
     [](PlanT &p) {
       auto &list = p.programs[0]->instructions;
       list.erase(list.begin() + 9);
       list.resize(11); // what needs its result is behind these
       p.programs[0]->results.resize(0);
     },
     "never waits for future 2"},
    {"Futures", [](PlanT &p) { p.programs[0]->futures = 1u << 30; },
     "more futures"},
    {"ReduceOf", [](PlanT &p) { transfer(p, CollectiveKind::reduce_scatter).of = {77}; },
     "state that does not exist"},
    {"ReduceShape", [](PlanT &p) { value(p, 11).shape = {3, 2}; }, "less room"},
    {"ReduceType",
     [](PlanT &p) {
       value(p, transfer(p, CollectiveKind::reduce_scatter).outputs[0]).dtype = DType::bf16;
     },
     "of another element type"},
    {"ReduceMaximumWidened",
     [](PlanT &p) {
       transfer(p, CollectiveKind::reduce_scatter).reduction = Reduction::max;
       value(p, transfer(p, CollectiveKind::reduce_scatter).inputs[0]).dtype = DType::bf16;
     },
     "of another element type"},
    {"GatherType",
     [](PlanT &p) {
       value(p, transfer(p, CollectiveKind::all_gather).outputs[0]).dtype = DType::bf16;
     },
     "of another element type"},
    {"ReduceRoom", [](PlanT &p) { value(p, 10).bytes = 24; },
     "needs room for 4 rows"},
    {"Reduction",
     [](PlanT &p) { transfer(p, CollectiveKind::reduce_scatter).reduction = Reduction(7); },
     "unknown enumerator"},
    {"AllReduceView", [](PlanT &p) { value(p, 12).base = 10; },
     "no view of its input"},
    {"FreeInFlight",
     [](PlanT &p) {
       FreeT free;
       free.values = {10};
       p.programs[0]->instructions[7]->body.Set(std::move(free));
     },
     "which a transfer still holds"},
    {"FreeTwice", [](PlanT &p) { body<FreeT>(p).values = {7, 7}; },
     "uses %7 after it was freed"},
    {"PaddingInFlight", [](PlanT &p) { swapInstructions(p, 5, 6); },
     "changes %10, which a transfer still holds"},
    {"AllReduceInFlight",
     [](PlanT &p) {
       transfer(p, CollectiveKind::all_reduce).inputs = {kGradient};
       value(p, 12).base = kGradient;
       value(p, 12).shape = {3, 2};
     },
     "(all_reduce) changes %10, which a transfer still holds"},
    {"AllReduceLiteral",
     [](PlanT &p) {
       transfer(p, CollectiveKind::all_reduce).inputs = {kLiteral};
       value(p, 12).base = kLiteral;
     },
     "(all_reduce) changes the literal %6"},
    {"SumInFlight", [](PlanT &p) { insertSum(p, 7, kGradient); },
     "(Accumulate) changes %10, which a transfer still holds"},
    {"SumLiteral", [](PlanT &p) { insertSum(p, 7, kLiteral); },
     "(Accumulate) changes the literal %6"},
    {"UpdateInFlight", [](PlanT &p) { insertUpdate(p, kShard, kAverage); },
     "(Update) changes %0, which a transfer still holds"},
    {"SpentInFlight", [](PlanT &p) { insertUpdate(p, kAverage, kShard); },
     "(Update) changes %0, which a transfer still holds"},
    {"CopyInFlight",
     [](PlanT &p) {
       CopyT copy;
       copy.from = kAverage;
       copy.to = kShard;
       insert(p, 1, std::move(copy));
     },
     "(Copy) changes %0, which a transfer still holds"},
    {"PaddingGroup", [](PlanT &p) { body<ZeroPaddingT>(p).group = 5; },
     "a group that does not exist"},
    {"ShardOutput", [](PlanT &p) { body<ShardT>(p).output = 8; }, "no slot"},
    {"SelectDim", [](PlanT &p) { selectInstead(p, 2, {0, 1}); },
     "on dim 2, which it does not have"},
    {"SelectShape", [](PlanT &p) { selectInstead(p, 1, {0, 0}); },
     "rows of %10 along dim 1"},
    {"SelectStarts", [](PlanT &p) { selectInstead(p, 0, {0}); },
     "one start for each of 2 ranks, found 1"},
    {"SelectEnd", [](PlanT &p) { selectInstead(p, 0, {0, 2}); },
     "from 0 to 1 on, found 2"},
    {"SelectOutput",
     [](PlanT &p) {
       selectInstead(p, 0, {0, 1});
       body<SelectRowsT>(p).output = 8;
     },
     "no slot"},
    {"AdamArity", [](PlanT &p) { body<UpdateT>(p).grads = {}; }, "2 moments"},
    {"AdamShape", [](PlanT &p) { body<UpdateT>(p).grads = {10}; },
     "expects the shape of %0"},
    {"AdamKind", [](PlanT &p) { body<UpdateT>(p).kind = 3; },
     "unknown enumerator"},
    {"AdamNumber", [](PlanT &p) { body<UpdateT>(p).numbers[2] = 1.0 / 0.0; },
     "not finite"},
    {"AdamScales", [](PlanT &p) { body<UpdateT>(p).scales = {4}; },
     "has 1 scales for 0 moments that are codes"},
    {"AdamMaxima", [](PlanT &p) { body<UpdateT>(p).maxima = 12; },
     "maxima of no scales"},
    {"AdamRoundingType",
     [](PlanT &p) {
       body<UpdateT>(p).rounding = true;
       body<UpdateT>(p).of = {0};
     },
     "rounds parameters at random that are not bf16"},
    {"AdamRoundingStates", [](PlanT &p) { body<UpdateT>(p).rounding = true; },
     "one state for each parameter"},
    {"AdamRoundingNoState",
     [](PlanT &p) {
       body<UpdateT>(p).rounding = true;
       body<UpdateT>(p).of = {99};
     },
     "a state that is not there"},
    {"AdamRoundingOtherState",
     [](PlanT &p) {
       body<UpdateT>(p).rounding = true;
       body<UpdateT>(p).of = {3};
     },
     "expects the elements of state 'optimizer/step' for %0"},
    {"MaximaArity", [](PlanT &p) { insertMaxima(p, {1}, {}); },
     "a scale for each moment"},
    {"MaximaCodes", [](PlanT &p) { insertMaxima(p, {1}, {2}); },
     "has 1 scales for 0 moments that are codes"},
    {"MaximaKind",
     [](PlanT &p) {
       insertMaxima(p, {1}, {2});
       body<BlockMaximaT>(p).kind = 9;
     },
     "unknown enumerator"},
    {"SgdArity",
     [](PlanT &p) {
       body<UpdateT>(p).kind = static_cast<uint8_t>(OptimizerKind::sgd);
       body<UpdateT>(p).numbers = {0, 0.1, 0};
     },
     "0 moments for each"},
    {"UpdateNumbers", [](PlanT &p) { body<UpdateT>(p).numbers.pop_back(); },
     "has 3 numbers, but adamw has 4"},
    {"UpdateNumberRange", [](PlanT &p) { body<UpdateT>(p).numbers[0] = 1; },
     "a beta1 out of range"},
    {"UpdateStep", [](PlanT &p) { body<UpdateT>(p).step = -1; },
     "needs a step"},
    {"CopyAcrossOneMemory",
     [](PlanT &p) { body<CopyAcrossT>(p).outputs = {18}; },
     "do not lie in two memories"},
    {"CopyAcrossStream",
     [](PlanT &p) { body<CopyAcrossT>(p).stream = Stream::upload; },
     "unknown enumerator"},
    {"CopyAcrossType", [](PlanT &p) { value(p, 17).shape = {4}; },
     "expects one type"},
    {"CopyAcrossTooMany",
     [](PlanT &p) { body<CopyAcrossT>(p).inputs.push_back(0); },
     "one output for each input"},
    {"HostOutsideOfItsArena", [](PlanT &p) { value(p, 17).offset = 256; },
     "outside of the arena"},
    {"HostWithoutAnArena", [](PlanT &p) { p.host.reset(); },
     "outside of the arena"},
    {"HostArenaTooLarge",
     [](PlanT &p) { p.host->peak = uint64_t{1} << 50; }, "than any machine"},
    {"UnknownMemory",
     [](PlanT &p) { value(p, 17).memory = static_cast<MemorySpace>(7); },
     "unknown element type, place or memory"},
    {"ComputesInTwoMemories",
     [](PlanT &p) {
       p.states[1]->memory = value(p, 1).memory = MemorySpace::host;
       p.states[1]->offset = value(p, 1).offset = 0;
     },
     "beside what lies elsewhere"},
    {"ExchangesWhatLiesOnTheHost",
     [](PlanT &p) {
       p.states[0]->memory = value(p, 0).memory = MemorySpace::host;
       p.states[0]->offset = value(p, 0).offset = 0;
     },
     "beside what lies elsewhere"},
    {"StateInAnotherMemory", [](PlanT &p) { value(p, 0).memory = MemorySpace::host; },
     "beside state"},
    {"StateOutsideOfTheHost",
     [](PlanT &p) {
       p.states[0]->memory = MemorySpace::host;
       p.states[0]->offset = 256;
     },
     "does not lie in the arena"},
    {"HostStatesOverlap",
     [](PlanT &p) {
       for (size_t i : {0, 1}) {
         p.states[i]->memory = MemorySpace::host;
         p.states[i]->offset = 0;
       }
     },
     "overlaps state"},
    {"ViewOfAnotherMemory",
     [](PlanT &p) { value(p, 16).memory = MemorySpace::host; },
     "view %16 of another memory"},
    {"GivesOutWhatLiesOnTheHost",
     [](PlanT &p) { p.programs[0]->results[0]->value = 17; },
     "which lies on the host"},
    {"CopyType", [](PlanT &p) { body<CopyT>(p).to = 0; }, "expects one type"},
    {"CopyLiteral", [](PlanT &p) { body<CopyT>(p).to = 6; }, "the literal"},
    {"SumPlace", [](PlanT &p) { body<AccumulateT>(p).output = 13; },
     "no view of what is summed"},
    {"SumShape", [](PlanT &p) { body<AccumulateT>(p).into = 12; },
     "another shape"},
    {"SumDivisor", [](PlanT &p) { body<AccumulateT>(p).divisor = 0; },
     "divides a sum by 0"},
    {"RandomState", [](PlanT &p) { p.states[5]->shape = {1, 2}; },
     "no seed and offset"},
    {"InitOfAll", [](PlanT &p) { p.states[5]->init.resize(12); },
     "neither one element nor all"},
    {"DrawNumbers", [](PlanT &p) { body<DrawT>(p).numbers = {0}; },
     "expects 2 numbers"},
    {"DrawKind",
     [](PlanT &p) { body<DrawT>(p).distribution = Distribution(77); },
     "unknown enumerator"},
    {"DrawGiven",
     [](PlanT &p) {
       body<DrawT>(p).distribution = Distribution::gamma;
       body<DrawT>(p).numbers = {};
       body<DrawT>(p).given = {10};
     },
     "expects one type"},
    {"DrawState", [](PlanT &p) { body<DrawT>(p).random = 5; },
     "no seed and offset"},
    {"DrawPlace", [](PlanT &p) { body<DrawT>(p).output = 8; }, "no place"},
    {"DrawType", [](PlanT &p) { value(p, 15).dtype = DType::i32; },
     "elements of another type"},
    {"DrawGaps",
     [](PlanT &p) {
       value(p, 15).strides = {4, 1};
       value(p, 15).bytes = 32;
     },
     "which has gaps"},
    {"DataInput",
     [](PlanT &p) {
       p.data = std::make_unique<DataT>();
       p.data->inputs = {"x"};
       verifyPlan(p);
       p.data->targets = {"z"};
     },
     "the data table names the input 'z', which does not exist"},
    {"DataPad",
     [](PlanT &p) {
       p.data = std::make_unique<DataT>();
       p.data->pad.push_back(std::make_unique<PaddingT>());
       p.data->pad[0]->input = "z";
     },
     "the data table names the input 'z', which does not exist"},
    {"DataPadNumber",
     [](PlanT &p) {
       p.data = std::make_unique<DataT>();
       p.data->pad.push_back(std::make_unique<PaddingT>());
       p.data->pad[0]->input = "x";
       p.data->pad[0]->value = NAN;
     },
     "the data table pads with what is no number"},
    {"DataPool",
     [](PlanT &p) {
       p.data = std::make_unique<DataT>();
       p.data->length_pool = 8;
       p.data->length_group = 3;
     },
     "the data table has pools of 8 rows in groups of 3"},
    {"DataTargets",
     [](PlanT &p) {
       p.data = std::make_unique<DataT>();
       p.data->targets = {"x"};
     },
     "has targets and no inputs"},
    {"DataType",
     [](PlanT &p) {
       p.data = std::make_unique<DataT>();
       p.data->dtype = DType::f32;
     },
     "unknown format or element type"},
    {"ValidationMissing",
     [](PlanT &p) { p.validation = std::make_unique<ValidationT>(); },
     "entry 'eval/step' does not fit the programs that train"},
    {"ValidationState",
     [](PlanT &p) {
       ProgramT &program = addValidation(p);
       program.results.push_back(std::make_unique<BindingT>());
       program.results.back()->value = program.arguments[0]->value;
       program.results.back()->state = 0;
     },
     "program 'eval/step' changes a state"},
    {"ValidationLoss", [](PlanT &p) { addValidation(p).results.clear(); },
     "program 'eval/step' has no loss"},
    {"ProgramKind", [](PlanT &p) { p.programs[0]->kind = ProgramKind(7); },
     "is of no known kind"},
    {"ProgramPart", [](PlanT &p) { addValidation(p).part = StepPart::first; },
     "part of no step"},
    {"ValidationBinding", [](PlanT &p) { addValidation(p).shapes = "x.0=3"; },
     "has not the inputs of a program that trains"},
    {"Empty", [](PlanT &p) { p.programs[0]->instructions[0]->body.Reset(); },
     "is empty"},
};

INSTANTIATE_TEST_SUITE_P(Plan, VerifyRule, testing::ValuesIn(kCases), nameOf);

} // namespace

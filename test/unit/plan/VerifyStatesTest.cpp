//===- VerifyStatesTest.cpp - States that others lie in, or stand for -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Verify.h"

#include "test/unit/plan/VerifyCase.h"

#include <limits>

using namespace fsdp;
using namespace fsdp::plan;
using namespace fsdp::test;

namespace {

/// Adds a flat state of 8 elements with members of 3 and 2 at 0 and 4.
StateT &addFlat(PlanT &plan) {
  auto index = static_cast<int32_t>(plan.states.size());
  auto add = [&](const char *name, int64_t elements) -> StateT & {
    plan.states.push_back(std::make_unique<StateT>());
    plan.states.back()->name = name;
    plan.states.back()->shape = {elements};
    return *plan.states.back();
  };
  StateT &flat = add("b/flat", 8);
  flat.layout = Layout::flat;
  flat.shard_dim = 0;
  flat.bytes = 16;
  flat.offset = plan.memory->peak;
  plan.memory->peak += 128;
  add("b.weight", 3).flat = index;
  StateT &second = add("b.bias", 2);
  second.flat = index;
  second.flat_offset = 4;
  verifyPlan(plan);
  return second;
}

StateT &flatOf(PlanT &plan) { return *plan.states[addFlat(plan).flat]; }

/// Lays the rank's part of the first state, four elements, into a row of eight.
PackTensorsT &addPack(PlanT &plan) {
  ProgramT &program = *plan.programs[0];
  auto row = std::make_unique<ValueT>();
  row->shape = {8};
  row->offset = plan.memory->peak;
  row->bytes = 32;
  plan.memory->peak += 128;
  PackTensorsT pack;
  pack.inputs = {program.arguments[0]->value};
  pack.offsets = {4};
  pack.output = static_cast<uint32_t>(program.values.size());
  program.values.push_back(std::move(row));
  insert(plan, 0, std::move(pack));
  verifyPlan(plan);
  return body<PackTensorsT>(plan);
}

/// Holds a matrix of 100 elements in two blocks, which each rank has, and lets
/// the program read it.
DequantizeT &addQuantized(PlanT &plan) {
  ProgramT &program = *plan.programs[0];
  auto state = std::make_unique<StateT>();
  state->name = "base.weight";
  state->role = Role::frozen;
  state->dtype = DType::u8;
  state->shape = {2, 36};
  state->bytes = 72;
  state->offset = plan.memory->peak;
  state->quantized = std::make_unique<QuantizedT>();
  state->quantized->dtype = DType::bf16;
  state->quantized->shape = {10, 10};
  plan.memory->peak += 128;
  auto blocks = std::make_unique<ValueT>();
  blocks->dtype = DType::u8;
  blocks->shape = {2, 36};
  blocks->place = Place::state;
  blocks->offset = state->offset;
  blocks->bytes = 72;
  blocks->state = static_cast<uint32_t>(plan.states.size());
  auto numbers = std::make_unique<ValueT>();
  numbers->dtype = DType::bf16;
  numbers->shape = {10, 10};
  numbers->offset = plan.memory->peak;
  numbers->bytes = 200;
  plan.memory->peak += 256;
  DequantizeT dequantize;
  dequantize.input = static_cast<uint32_t>(program.values.size());
  dequantize.output = dequantize.input + 1;
  auto binding = std::make_unique<BindingT>();
  binding->value = dequantize.input;
  binding->state = static_cast<int32_t>(plan.states.size());
  program.arguments.push_back(std::move(binding));
  program.values.push_back(std::move(blocks));
  program.values.push_back(std::move(numbers));
  plan.states.push_back(std::move(state));
  insert(plan, 0, std::move(dequantize));
  verifyPlan(plan);
  return body<DequantizeT>(plan);
}

StateT &quantizedOf(PlanT &plan) {
  addQuantized(plan);
  return *plan.states.back();
}

/// Lets the first moment be the average of the first state, a parameter.
void makeAverage(PlanT &plan) {
  plan.states[1]->initializer = std::make_unique<InitializerT>();
  plan.states[1]->initializer->kind = InitKind::owner;
}

/// Adds a frozen matrix of 10 x 10 in blocks and an adapter of rank 3 over it.
AdapterT &addAdapter(PlanT &plan) {
  addQuantized(plan);
  AdapterT adapter;
  adapter.base = static_cast<uint32_t>(plan.states.size()) - 1;
  for (bool isUp : {false, true}) {
    (isUp ? adapter.up : adapter.down) =
        static_cast<uint32_t>(plan.states.size());
    auto state = std::make_unique<StateT>();
    state->name = isUp ? "up.weight" : "down.weight";
    state->shape = {isUp ? 10 : 3, isUp ? 3 : 10};
    state->bytes = 120;
    state->offset = plan.memory->peak;
    plan.memory->peak += 128;
    plan.states.push_back(std::move(state));
  }
  plan.adapters.push_back(std::make_unique<AdapterT>(adapter));
  verifyPlan(plan);
  return *plan.adapters.back();
}

const Case kCases[] = {
    {"StateLayout", [](PlanT &p) { p.states[0]->layout = Layout(7); },
     "unknown role, element type or layout"},
    {"FlatCut", [](PlanT &p) { flatOf(p).shape = {9}; },
     "not cut into equal parts"},
    {"FlatWhole", [](PlanT &p) { flatOf(p).shard_dim = -1; },
     "not cut into equal parts"},
    {"FlatValue", [](PlanT &p) { flatOf(p).init.resize(4); },
     "has a first value"},
    {"MemberOf", [](PlanT &p) { addFlat(p).flat = 99; },
     "lies in a state that does not exist"},
    {"MemberOfRows", [](PlanT &p) { addFlat(p).flat = 0; },
     "lies in a state of another kind"},
    {"MemberType", [](PlanT &p) { addFlat(p).dtype = DType::bf16; },
     "lies in a state of another kind"},
    {"MemberEnd", [](PlanT &p) { addFlat(p).flat_offset = 7; },
     "does not lie in state 'b/flat'"},
    {"MemberOverlap", [](PlanT &p) { addFlat(p).flat_offset = 2; },
     "overlaps state 'b.weight'"},
    {"MemberBytes", [](PlanT &p) { addFlat(p).bytes = 8; },
     "has bytes of its own"},
    {"PackOffsets", [](PlanT &p) { addPack(p).offsets = {}; },
     "not one offset for each input"},
    {"PackEnd", [](PlanT &p) { addPack(p).offsets = {5}; }, "has no place for"},
    {"PackOverlap",
     [](PlanT &p) {
       PackTensorsT &pack = addPack(p);
       pack.inputs = {pack.inputs[0], pack.inputs[0]};
       pack.offsets = {0, 3};
     },
     "has no place for"},
    {"PackOutput",
     [](PlanT &p) {
       PackTensorsT &pack = addPack(p);
       value(p, pack.output).shape = {2, 4};
     },
     "no row of elements"},
    {"PackType",
     [](PlanT &p) {
       PackTensorsT &pack = addPack(p);
       value(p, pack.output).dtype = DType::i32;
     },
     "has no place for"},
    {"DequantizeKind",
     [](PlanT &p) { addQuantized(p).kind = QuantizedKind(7); },
     "unknown enumerator"},
    {"DequantizeBlockSize", [](PlanT &p) { addQuantized(p).block_size = 96; },
     "has blocks of 96"},
    {"DequantizeBlockSizeOfNone",
     [](PlanT &p) { addQuantized(p).block_size = 0; }, "has blocks of 0"},
    {"DequantizeCodedScales",
     [](PlanT &p) { addQuantized(p).double_quant = true; },
     "has not the blocks of"},
    {"DequantizeBlocks",
     [](PlanT &p) { addQuantized(p).kind = QuantizedKind::int8; },
     "has not the blocks of"},
    {"DequantizeElements",
     [](PlanT &p) { value(p, addQuantized(p).output).shape = {8, 8}; },
     "has not the blocks of"},
    {"DequantizeType",
     [](PlanT &p) { value(p, addQuantized(p).output).dtype = DType::i16; },
     "holds no f32 and no halves"},
    {"QuantizedKind",
     [](PlanT &p) { quantizedOf(p).quantized->kind = QuantizedKind(7); },
     "blocks of codes of no valid tensor"},
    {"QuantizedBlockSize",
     [](PlanT &p) { quantizedOf(p).quantized->block_size = 1u << 31; },
     "blocks of codes of no valid tensor"},
    {"QuantizedForm",
     [](PlanT &p) { quantizedOf(p).quantized->double_quant = true; },
     "is not that of its blocks of codes"},
    {"QuantizedType",
     [](PlanT &p) { quantizedOf(p).quantized->dtype = DType::i64; },
     "blocks of codes of no valid tensor"},
    {"QuantizedShape",
     [](PlanT &p) { quantizedOf(p).quantized->shape = {10, 13}; },
     "is not that of its blocks of codes"},
    {"QuantizedSize",
     [](PlanT &p) {
       quantizedOf(p).quantized->shape = {int64_t{1} << 40, int64_t{1} << 40};
     },
     "blocks of codes of no valid tensor"},
    {"QuantizedRole", [](PlanT &p) { quantizedOf(p).role = Role::parameter; },
     "is not frozen"},
    {"QuantizedInit",
     [](PlanT &p) { quantizedOf(p).init = std::vector<uint8_t>(72); },
     "neither one element nor all"},
    {"AdapterMagnitude",
     [](PlanT &p) {
       AdapterT &adapter = addAdapter(p);
       p.adapter_settings = std::make_unique<AdapterSettingsT>();
       adapter.magnitude = 0;
     },
     "do not fit each other"},
    {"AdapterMagnitudeIndex",
     [](PlanT &p) { addAdapter(p).magnitude = 1 << 20; },
     "names a state that does not exist"},
    {"AdapterFirst", [](PlanT &p) { addAdapter(p).first_down = -2; },
     "names a state that does not exist"},
    {"AdapterExperts", [](PlanT &p) { addAdapter(p).experts = 3; },
     "do not fit each other"},
    {"StartOfNoAdapter",
     [](PlanT &p) {
       p.states[0]->initializer = std::make_unique<InitializerT>();
       p.states[0]->initializer->kind = InitKind::norms;
       p.states[0]->source.reset();
       p.states[0]->init.clear();
     },
     "a base that it is no adapter of"},
    {"AverageOfNobody",
     [](PlanT &p) {
       makeAverage(p);
       p.states[1]->of = -1;
     },
     "the average of what is no trained parameter"},
    {"AverageOfFrozen",
     [](PlanT &p) {
       makeAverage(p);
       p.states[0]->role = Role::frozen;
     },
     "the average of what is no trained parameter"},
    {"AverageElsewhere",
     [](PlanT &p) {
       makeAverage(p);
       p.states[1]->group = 0;
       p.states[1]->shard_dim = -1;
       p.states[1]->bytes = 24;
     },
     "the average of what is no trained parameter, or lies otherwise"},
    {"StartOfOne",
     [](PlanT &p) {
       StateT &down = *p.states[addAdapter(p).down];
       down.initializer = std::make_unique<InitializerT>();
       down.initializer->kind = InitKind::pissa;
       down.initializer->arguments = {0};
     },
     "begins otherwise than"},
    {"AdapterState", [](PlanT &p) { addAdapter(p).up = 99; },
     "adapter 0 names a state that does not exist"},
    {"AdapterTwice",
     [](PlanT &p) {
       addAdapter(p);
       p.adapters.push_back(std::make_unique<AdapterT>(*p.adapters[0]));
     },
     "adapter 1 names the state 'base.weight' again"},
    {"AdapterSame",
     [](PlanT &p) {
       AdapterT &adapter = addAdapter(p);
       adapter.up = adapter.down;
     },
     "adapter 0 names the state 'down.weight' again"},
    {"AdapterBase",
     [](PlanT &p) {
       AdapterT &adapter = addAdapter(p);
       std::swap(adapter.base, adapter.up);
     },
     "names the state 'up.weight', which is not frozen"},
    {"AdapterFrozen",
     [](PlanT &p) { p.states[addAdapter(p).down]->role = Role::frozen; },
     "names the state 'down.weight', which is not trained"},
    {"AdapterType",
     [](PlanT &p) { p.states[addAdapter(p).down]->dtype = DType::i32; },
     "names the state 'down.weight', which is no matrix of numbers"},
    {"AdapterDims", [](PlanT &p) { p.states[addAdapter(p).up]->shape = {30}; },
     "names the state 'up.weight', which is no matrix of numbers"},
    {"AdapterRank",
     [](PlanT &p) { p.states[addAdapter(p).up]->shape = {15, 2}; },
     "matrices that do not fit each other"},
    {"AdapterInputs",
     [](PlanT &p) { p.states[addAdapter(p).down]->shape = {2, 15}; },
     "matrices that do not fit each other"},
    {"AdapterTurned",
     [](PlanT &p) {
       AdapterT &adapter = addAdapter(p);
       adapter.base_is_in_by_out = true; // a square base fits either way
       verifyPlan(p);
       p.states[adapter.base]->quantized->shape = {5, 20};
     },
     "matrices that do not fit each other"},
    {"AdapterScale",
     [](PlanT &p) {
       addAdapter(p).scale = std::numeric_limits<double>::quiet_NaN();
     },
     "a scale that is no number"},
    {"AdapterDims4",
     [](PlanT &p) {
       AdapterT &adapter = addAdapter(p);
       // As convolutions have them: dims behind the first are one.
       p.states[adapter.down]->shape = {3, 5, 2};
       p.states[adapter.up]->shape = {10, 3, 1, 1};
       verifyPlan(p);
       p.states[adapter.down]->shape = {2, 5, 3};
     },
     "matrices that do not fit each other"},
    {"AdapterSettingsAlone",
     [](PlanT &p) {
       p.adapter_settings = std::make_unique<AdapterSettingsT>();
     },
     "the adapters' settings are of no adapters"},
    {"AdapterSettingsDropout",
     [](PlanT &p) {
       AdapterT &adapter = addAdapter(p);
       p.adapter_settings = std::make_unique<AdapterSettingsT>();
       // Without training they are there all the same.
       p.states[adapter.down]->role = Role::frozen;
       p.states[adapter.up]->role = Role::frozen;
       verifyPlan(p);
       p.adapter_settings->dropout = 1;
     },
     "the adapters' settings are of no adapters"},
};

INSTANTIATE_TEST_SUITE_P(States, VerifyRule, testing::ValuesIn(kCases), nameOf);

} // namespace

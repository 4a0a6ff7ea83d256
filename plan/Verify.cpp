//===- Verify.cpp - Check every reference of a plan -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Verify.h"

#include "plan/DType.h"
#include "plan/FirstValues.h"
#include "plan/Kernels.h"
#include "plan/Programs.h"
#include "plan/Quantized.h"
#include "plan/Schedule.h"
#include "plan/Shape.h"
#include "plan/StateParts.h"
#include "plan/Target.h"
#include "plan/VerifyAdapters.h"
#include "plan/VerifyProgram.h"
#include "plan/VerifySteps.h"
#include "support/Error.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>

using namespace fsdp;
using plan::PlanT;

namespace {

constexpr uint64_t kMaxRanks = uint64_t{1} << 24;
constexpr uint64_t kMaxArena = uint64_t{1} << 47;

void verifyMesh(const PlanT &plan) {
  uint64_t world = 1;
  for (const auto &axis : plan.mesh) {
    if (axis->size < 1 || axis->size > kMaxRanks ||
        (world *= axis->size) > kMaxRanks)
      refusePlan("mesh axis '" + axis->name + "'",
                 "has size " + std::to_string(axis->size));
  }
  for (const auto &group : plan.groups) {
    uint64_t span = uint64_t{group->size} * group->stride;
    if (group->size < 1 || group->stride < 1 || span > world || world % span)
      refusePlan("group '" + group->name + "'", "does not divide a mesh of " +
                                                    std::to_string(world) +
                                                    " ranks");
  }
  if (plan.data_parallel < 1 || world % plan.data_parallel)
    refusePlan("data_parallel",
               "does not divide a mesh of " + std::to_string(world) + " ranks");
}

void verifyRecord(const PlanT &plan, const std::string &where,
                  const plan::RecordT &record,
                  const std::vector<int64_t> &shape, plan::DType dtype) {
  if (!plan.model)
    refusePlan(where, "lies in a model file, and the plan names none");
  auto extent = checkedExtent(shape, record.strides, dtypeBytes(dtype));
  if (!extent || *extent > record.bytes)
    refusePlan(where, "has a record of " + std::to_string(record.bytes) +
                          " bytes, which does not hold its shape");
  if (record.offset > plan.model->bytes ||
      record.bytes > plan.model->bytes - record.offset)
    refusePlan(where, "has a record beyond the end of the model file");
}

void verifyWeight(const PlanT &plan, const std::string &where,
                  const plan::StateT &state) {
  const plan::WeightT &weight = *state.weight;
  if (weight.names.empty())
    refusePlan(where, "has a weight without a name");
  if (weight.file < 0)
    return;
  if (static_cast<size_t>(weight.file) >= plan.weights.size())
    refusePlan(where, "lies in a weights file that does not exist");
  // Codes, with whatever else the file has of them, of 4 or of 8 bits.
  bool isPacked = weight.dtype == plan::DType::u8;
  bool isCoded = (isPacked || weight.dtype == plan::DType::i8) &&
                 isQuantizable(modelDType(state));
  if (weight.dtype > plan::DType::MAX ||
      (!isCoded && !isConvertible(weight.dtype, modelDType(state))))
    refusePlan(where, "has a weight whose type does not convert to its own");
  auto extent =
      checkedExtent(modelShape(plan, state), {}, dtypeBytes(weight.dtype));
  if (!extent || (isCoded && isPacked ? !canBePacked(*extent, weight.bytes)
                                      : *extent != weight.bytes))
    refusePlan(where, "has a weight of " + std::to_string(weight.bytes) +
                          " bytes, which is not its shape");
  uint64_t bytes = plan.weights[weight.file]->bytes;
  if (weight.offset > bytes || weight.bytes > bytes - weight.offset)
    refusePlan(where, "has a weight beyond the end of its file");
}

void verifyFirstValue(const PlanT &plan, const std::string &where,
                      const plan::StateT &state) {
  const std::vector<int64_t> shape = modelShape(plan, state);
  const plan::DType dtype = modelDType(state);
  bool isElement = state.init.size() == dtypeBytes(dtype);
  bool isAll = checkedExtent(shape, {}, dtypeBytes(dtype)) ==
               std::optional<uint64_t>(state.init.size());
  if (!state.init.empty() && !isElement && !isAll)
    refusePlan(where, "has an initial value that is neither one element nor "
                      "all");
  int values = !state.init.empty() + bool(state.source) + bool(state.weight) +
               bool(state.initializer);
  if (values > 1)
    refusePlan(where, "has more than one first value");
  if (state.source)
    verifyRecord(plan, where, *state.source, shape, dtype);
  if (state.weight)
    verifyWeight(plan, where, state);
  if (state.initializer)
    if (auto problem = checkInitializer(*state.initializer, shape, dtype))
      refusePlan(where, "has an initializer that " + *problem);
}

/// As float32 of a parameter of fewer bits.
void verifyWidened(const std::string &where, const plan::StateT &state) {
  if (state.is_widened &&
      ((state.role != plan::Role::parameter &&
        state.role != plan::Role::frozen && !isAverage(state)) ||
       state.quantized || state.layout == plan::Layout::flat ||
       state.dtype != plan::DType::f32 ||
       (state.model_dtype != plan::DType::bf16 &&
        state.model_dtype != plan::DType::f16)))
    refusePlan(where, "holds more digits than the model's tensor has, and is "
                      "no parameter of f32");
}

/// Element by element beside a trained parameter, on the same ranks.
void verifyAverage(const PlanT &plan, const std::string &where,
                   const plan::StateT &state) {
  if (!isAverage(state))
    return;
  const plan::StateT *owner =
      state.of < 0 ? nullptr : plan.states[state.of].get();
  if (!owner || state.role != plan::Role::optimizer ||
      owner->role != plan::Role::parameter || owner->shape != state.shape ||
      owner->shard_dim != state.shard_dim || owner->group != state.group ||
      owner->layout != state.layout || (owner->flat < 0) != (state.flat < 0) ||
      owner->flat_offset != state.flat_offset ||
      owner->split_dim != state.split_dim ||
      owner->split_group != state.split_group ||
      owner->split_blocks != state.split_blocks ||
      state.bytes / dtypeBytes(state.dtype) !=
          owner->bytes / dtypeBytes(owner->dtype) ||
      !isPlainFloat(state.dtype) || !isPlainFloat(owner->dtype))
    refusePlan(where, "is the average of what is no trained parameter, or lies "
                      "otherwise");
}

/// Blocks of codes of a tensor of the model, each a row of bytes.
void verifyQuantized(const std::string &where, const plan::StateT &state) {
  if (!state.quantized)
    return;
  const plan::QuantizedT &model = *state.quantized;
  auto elements = checkedElements(model.shape);
  BlockForm form = toBlockForm(model);
  if (!form.isValid() || !isQuantizable(model.dtype) || !elements ||
      *elements == 0 ||
      !checkedExtent(model.shape, {}, dtypeBytes(model.dtype)))
    refusePlan(where, "holds blocks of codes of no valid tensor");
  if (state.role != plan::Role::frozen || state.split_dim != -1 ||
      state.layout != plan::Layout::rows || state.flat != -1 ||
      state.shard_dim > 0)
    refusePlan(where, "holds blocks of codes and is not frozen, or is cut "
                      "otherwise than in rows");
  if (state.dtype != plan::DType::u8 ||
      state.shape != blocksShape(form, *elements))
    refusePlan(where, "has shape " + toString(state.shape) +
                          ", which is not that of its blocks of codes");
}

/// A flat state is cut evenly; what it is made of stands at its members.
void verifyFlat(const PlanT &plan, const std::string &where,
                const plan::StateT &state) {
  if (state.shape.size() != 1 || state.shard_dim != 0 ||
      state.shape[0] % plan.groups[state.group]->size != 0)
    refusePlan(where, "is flat and not cut into equal parts");
  if (state.source || state.weight || state.initializer ||
      !state.init.empty() || state.flat != -1)
    refusePlan(where, "is flat and has a first value or a place of its own");
}

/// A member has no bytes of its own, and lies in a flat state of its type.
void verifyMember(const PlanT &plan, const std::string &where,
                  const plan::StateT &state) {
  if (state.flat < 0 || static_cast<size_t>(state.flat) >= plan.states.size())
    refusePlan(where, "lies in a state that does not exist");
  const plan::StateT &flat = *plan.states[state.flat];
  if (flat.memory != state.memory)
    refusePlan(where, "lies in a state of another memory");
  if (flat.layout != plan::Layout::flat || flat.dtype != state.dtype ||
      flat.role != state.role || flat.shape.size() != 1)
    refusePlan(where, "lies in a state of another kind");
  auto room = static_cast<uint64_t>(flat.shape[0]);
  uint64_t count = *checkedElements(state.shape);
  if (state.flat_offset > room || count > room - state.flat_offset)
    refusePlan(where, "does not lie in state '" + flat.name + "'");
  if (state.bytes != 0 || state.shard_dim != -1)
    refusePlan(where, "lies in a flat state and has bytes of its own");
}

void verifyMembersApart(const PlanT &plan) {
  std::map<int32_t, std::vector<const plan::StateT *>> members;
  for (const auto &state : plan.states)
    if (state->flat >= 0)
      members[state->flat].push_back(state.get());
  for (auto &[flat, each] : members) {
    std::sort(each.begin(), each.end(), [](const auto *a, const auto *b) {
      return a->flat_offset < b->flat_offset;
    });
    for (size_t i = 1; i < each.size(); ++i)
      if (each[i - 1]->flat_offset + *checkedElements(each[i - 1]->shape) >
          each[i]->flat_offset)
        refusePlan("state '" + each[i]->name + "'",
                   "overlaps state '" + each[i - 1]->name + "'");
  }
}

/// The model's tensor has a size, and only what has dims is split.
void verifySplit(const PlanT &plan, const std::string &where,
                 const plan::StateT &state) {
  if (state.split_dim == -1)
    return;
  if (state.split_dim < 0 ||
      static_cast<size_t>(state.split_dim) >= state.shape.size())
    refusePlan(where, "is split on a dim that it does not have");
  if (state.split_group >= plan.groups.size())
    refusePlan(where, "is split over a group that does not exist");
  if (state.layout == plan::Layout::flat || state.role == plan::Role::random)
    refusePlan(where, "is split, as no flat state and no random one is");
  int64_t size = plan.groups[state.split_group]->size;
  if (size < 2)
    refusePlan(where, "is split over a group of one rank");
  int64_t rows = state.shape[static_cast<size_t>(state.split_dim)];
  if (state.split_blocks == 0 || rows % state.split_blocks != 0)
    refusePlan(where, "is split in parts of no whole blocks");
  if (rows > std::numeric_limits<int64_t>::max() / size ||
      !checkedExtent(wholeShape(plan, state), {}, dtypeBytes(state.dtype)))
    refusePlan(where, "is part of a tensor of no valid shape");
}

/// Ranks that hold a state's tensor together hold it once.
void verifySplitsApart(const PlanT &plan) {
  for (const auto &state : plan.states) {
    std::string where = "state '" + state->name + "'";
    const plan::GroupT *split = splitOf(plan, *state);
    const plan::GroupT *shards = shardsOf(plan, *state);
    if (split && shards && !areApart(*split, *shards))
      refusePlan(where, "is split over ranks of the group that it is sharded "
                        "over");
    // What is kept of a state's elements is cut as they are.
    if (state->of < 0)
      continue;
    const plan::StateT &of = *plan.states[state->of];
    if (state->shape == of.shape && (state->split_dim != of.split_dim ||
                                     state->split_blocks != of.split_blocks ||
                                     (split && split != splitOf(plan, of))))
      refusePlan(where, "is not split as '" + of.name + "', which it is of");
  }
}

void verifyState(const PlanT &plan, const plan::StateT &state, size_t index) {
  std::string where = "state '" + state.name + "'";
  if (state.role > plan::Role::MAX || state.dtype > plan::DType::MAX ||
      state.layout > plan::Layout::MAX)
    refusePlan(where, "has an unknown role, element type or layout");
  if (!checkedExtent(state.shape, {}, dtypeBytes(state.dtype)))
    refusePlan(where, "has no valid shape");
  if (state.role == plan::Role::random &&
      (state.dtype != plan::DType::i64 ||
       state.shape != std::vector<int64_t>{2} || state.shard_dim >= 0))
    refusePlan(where, "is no seed and offset");
  std::vector<int64_t> local = state.shape;
  if (state.shard_dim < -1 ||
      state.shard_dim >= static_cast<int64_t>(local.size()))
    refusePlan(where, "is sharded on a dim that it does not have");
  if (state.shard_dim >= 0) {
    if (state.group >= plan.groups.size())
      refusePlan(where, "is sharded over a group that does not exist");
    local = shardShape(std::move(local), state.shard_dim,
                       plan.groups[state.group]->size);
  }
  verifySplit(plan, where, state);
  if (state.layout == plan::Layout::flat)
    verifyFlat(plan, where, state);
  auto extent = checkedExtent(local, {}, dtypeBytes(state.dtype));
  if (state.flat != -1)
    verifyMember(plan, where, state);
  else if (!extent || *extent != state.bytes)
    refusePlan(where, "states " + std::to_string(state.bytes) +
                          " bytes; its local shape is " + toString(local));
  uint64_t peak = peakOf(plan, state.memory);
  if (state.memory > plan::MemorySpace::MAX || state.offset > peak ||
      state.bytes > peak - state.offset ||
      state.offset % dtypeBytes(state.dtype))
    refusePlan(where, "does not lie in the arena");
  verifyWidened(where, state);
  verifyQuantized(where, state);
  verifyFirstValue(plan, where, state);
  if (state.of < -1 || state.of >= static_cast<int64_t>(plan.states.size()) ||
      state.of == static_cast<int64_t>(index))
    refusePlan(where, "belongs to a state that does not exist");
  verifyAverage(plan, where, state);
}

void verifyStates(const PlanT &plan) {
  std::set<std::string> names;
  std::vector<const plan::StateT *> order;
  for (size_t i = 0; i < plan.states.size(); ++i) {
    const plan::StateT &state = *plan.states[i];
    verifyState(plan, state, i);
    if (state.name.empty() || !names.insert(state.name).second)
      refusePlan("state '" + state.name + "'", "has no name of its own");
    if (state.bytes)
      order.push_back(&state);
  }
  verifyMembersApart(plan);
  verifySplitsApart(plan);
  std::sort(order.begin(), order.end(), [](const auto *a, const auto *b) {
    return std::pair(a->memory, a->offset) < std::pair(b->memory, b->offset);
  });
  for (size_t i = 1; i < order.size(); ++i)
    if (order[i - 1]->memory == order[i]->memory &&
        order[i - 1]->offset + order[i - 1]->bytes > order[i]->offset)
      refusePlan("state '" + order[i]->name + "'",
                 "overlaps state '" + order[i - 1]->name + "'");
}

void verifyRates(const PlanT &plan) {
  const plan::TrainingT &training = *plan.training;
  if (std::isnan(training.norm_order))
    refusePlan("the training table", "holds a number out of range");
  for (uint32_t index : training.rates) {
    if (index >= plan.states.size())
      refusePlan("the training table",
                 "names a learning rate that does not exist");
    const plan::StateT &state = *plan.states[index];
    bool isNumber =
        state.role == plan::Role::learning_rate && state.shape.empty() &&
        state.shard_dim < 0 &&
        (state.dtype == plan::DType::f32 || state.dtype == plan::DType::f64);
    if (!isNumber || state.init.size() != dtypeBytes(state.dtype))
      refusePlan("state '" + state.name + "'",
                 "is no number with a first value, as learning rates are");
  }
  if (!training.schedule)
    return;
  if (training.schedule->kind >= getSchedules().size())
    refusePlan("the schedule", "is of an unknown kind");
  // The run may set another rate than the artifact's, which the least one may
  // be above.
  if (std::optional<std::string> problem = checkSchedule(
          "", *training.schedule, std::numeric_limits<double>::infinity()))
    refusePlan("the schedule", "is not valid: " + *problem);
}

void verifyData(const PlanT &plan) {
  if (!plan.data)
    return;
  const plan::DataT &data = *plan.data;
  if (data.format > plan::TokenFormat::MAX ||
      (data.dtype != plan::DType::u16 && data.dtype != plan::DType::u32))
    refusePlan("the data table", "has an unknown format or element type");
  if (data.inputs.empty() && !data.targets.empty())
    refusePlan("the data table", "has targets and no inputs");
  std::vector<std::string> named = data.inputs;
  named.insert(named.end(), data.targets.begin(), data.targets.end());
  for (const auto &padding : data.pad) {
    if (!std::isfinite(padding->value))
      refusePlan("the data table", "pads with what is no number");
    named.push_back(padding->input);
  }
  for (const std::string *name : {&data.labels, &data.label_count})
    if (!name->empty())
      named.push_back(*name);
  for (const std::string &name : named)
    if (std::ranges::none_of(plan.inputs, [&](const auto &input) {
          return input->name == name;
        }))
      refusePlan("the data table",
                 "names the input '" + name + "', which does not exist");
  if (data.length_group == 0 || data.length_pool % data.length_group != 0)
    refusePlan("the data table",
               "has pools of " + std::to_string(data.length_pool) +
                   " rows in groups of " + std::to_string(data.length_group));
}

void verifyKernels(const PlanT &plan) {
  for (size_t i = 0; i < plan.kernels.size(); ++i)
    if (auto problem = checkKernel(*plan.kernels[i]))
      refusePlan("kernel " + std::to_string(i), *problem);
  std::set<std::pair<uint32_t, std::string>> made;
  for (const auto &code : plan.kernel_code)
    if (code->kernel >= plan.kernels.size() || code->target.empty() ||
        !made.insert({code->kernel, code->target}).second)
      refusePlan("code for '" + code->target + "'",
                 "is of kernel " + std::to_string(code->kernel) +
                     ", which does not exist or has code for that already");
}

void verifyPrograms(const PlanT &plan) {
  std::set<std::string> names;
  std::set<std::pair<Entry, std::set<int32_t>>> signatures;
  for (const auto &program : plan.programs) {
    if (program->name.empty() || !names.insert(program->name).second)
      refusePlan("program '" + program->name + "'", "has no name of its own");
    if (program->kind > plan::ProgramKind::MAX ||
        program->part > plan::StepPart::MAX ||
        (program->part != plan::StepPart::whole &&
         program->kind != plan::ProgramKind::train))
      refusePlan("program '" + program->name + "'",
                 "is of no known kind, or part of no step");
    if (!(std::isfinite(program->model_flops) && program->model_flops >= 0))
      refusePlan("program '" + program->name + "'",
                 "counts operations that are no number from 0");
    verifyProgram(plan, *program);
    // The inputs' shapes tell which one a step is for.
    if (!signatures.insert({getEntry(*program), inputsOf(*program)}).second)
      refusePlan("program '" + program->name + "'",
                 "has the inputs of another program of its entry");
  }
}

} // namespace

void fsdp::refusePlan(const std::string &where, const std::string &what) {
  throw Error(ErrorId::ArtifactCorrupted, where + " " + what);
}

void fsdp::verifyPlan(const PlanT &plan) {
  if (!plan.memory || !plan.training)
    refusePlan("the plan", "has no memory or training table");
  for (const plan::MemoryT *memory : {plan.memory.get(), plan.host.get()})
    if (memory && memory->peak > kMaxArena)
      refusePlan("the arena", "has " + std::to_string(memory->peak) +
                                  " bytes, more than any machine");
  verifyMesh(plan);
  verifyStates(plan);
  for (const auto &input : plan.inputs) {
    std::string where = "input '" + input->name + "'";
    if (input->dtype > plan::DType::MAX ||
        !checkedExtent(input->shape, {}, dtypeBytes(input->dtype)))
      refusePlan(where, "has no valid type");
    if (input->sample)
      verifyRecord(plan, where, *input->sample, input->shape, input->dtype);
  }
  if (plan.training->gradient_accumulation_steps < 1 ||
      !std::isfinite(plan.training->lr) ||
      !std::isfinite(plan.training->max_grad_norm) ||
      plan.training->on_nonfinite > plan::NonFinite::MAX)
    refusePlan("the training table", "holds a number out of range");
  verifyGrains(plan);
  verifyRates(plan);
  verifyAdapters(plan);
  verifyKernels(plan);
  verifyPrograms(plan);
  verifyParts(plan);
  verifyData(plan);
  verifyValidation(plan);
}

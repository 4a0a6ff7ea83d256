//===- WholeCheckpoint.cpp - Checkpoints out of whole tensors -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "python/native/WholeCheckpoint.h"

#include "plan/DType.h"
#include "plan/FirstValues.h"
#include "plan/Schedule.h"
#include "plan/Shape.h"
#include "plan/StateParts.h"
#include "plan/Worlds.h"
#include "runtime/checkpoint/CheckedFile.h"
#include "runtime/checkpoint/Folder.h"
#include "runtime/checkpoint/Manifest.h"
#include "runtime/checkpoint/SavedStates.h"
#include "runtime/states/FirstValues.h"
#include "runtime/states/ModelFile.h"
#include "runtime/states/States.h"
#include "runtime/states/WeightReader.h"
#include "support/AtomicFile.h"
#include "support/Error.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>

using namespace fsdp;
namespace fs = std::filesystem;

//===----------------------------------------------------------------------===//
// What an artifact keeps
//===----------------------------------------------------------------------===//

/// Whether a first value is as good as one of another run: its random numbers
/// are others, and what exports leave out is computed.
static bool mayLack(const plan::StateT &state) {
  return state.volatile_ || state.role == plan::Role::random ||
         state.role == plan::Role::scalar ||
         state.role == plan::Role::loss_scale ||
         state.role == plan::Role::loss_growth;
}

/// The number that a person wrote: 0.001, not 0.0010000000474974513.
static double readRate(const plan::StateT &state) {
  if (state.dtype == plan::DType::f64) {
    double value = 0;
    std::memcpy(&value, state.init.data(), sizeof(value));
    return value;
  }
  float narrow = 0;
  std::memcpy(&narrow, state.init.data(), sizeof(narrow));
  char text[32];
  auto end = std::to_chars(text, text + sizeof(text), narrow).ptr;
  double value = 0;
  std::from_chars(text, end, value);
  return value;
}

namespace {

/// Collects the optimizer's groups from the instructions that update.
class Groups {
public:
  explicit Groups(const plan::PlanT &plan) : plan(plan) {
    for (const auto &program : plan.programs) {
      std::map<uint32_t, int32_t> states;
      for (const auto &binding : program->arguments)
        if (binding->state >= 0)
          states[binding->value] = binding->state;
      for (const auto &instruction : program->instructions) {
        if (const plan::UpdateT *update = instruction->body.AsUpdate()) {
          auto kind = OptimizerKind(update->kind);
          add(states, update->params, update->lr,
              {kind, {}, 0, getFacts(kind).fromList(update->numbers)});
        }
      }
    }
  }

  std::vector<KeptGroup> take() {
    std::vector<KeptGroup> list;
    // In the order in which the model has their first parameters.
    std::set<const KeptGroup *> seen;
    for (const auto &state : plan.states)
      for (auto &[key, group] : all)
        if (std::ranges::find(group.params, state->name) !=
                group.params.end() &&
            seen.insert(&group).second)
          list.push_back(group);
    for (KeptGroup &group : list)
      sort(group.params);
    return list;
  }

private:
  using Key = std::pair<double, OptimizerNumbers>;

  void add(const std::map<uint32_t, int32_t> &states,
           const std::vector<uint32_t> &params, uint32_t lr, KeptGroup group) {
    auto rate = states.find(lr);
    if (rate == states.end())
      return;
    group.lr = readRate(*plan.states[static_cast<size_t>(rate->second)]);
    KeptGroup &all = this->all.try_emplace(Key(group.lr, group.numbers), group)
                         .first->second;
    for (uint32_t value : params) {
      auto it = states.find(value);
      if (it == states.end())
        continue;
      const plan::StateT &state = *plan.states[static_cast<size_t>(it->second)];
      if (state.layout == plan::Layout::flat) {
        for (const auto &member : plan.states)
          if (member->flat == it->second)
            addName(all, member->name);
      } else {
        addName(all, state.name);
      }
    }
  }

  static void addName(KeptGroup &group, const std::string &name) {
    if (std::ranges::find(group.params, name) == group.params.end())
      group.params.push_back(name);
  }

  void sort(std::vector<std::string> &names) const {
    std::map<std::string, size_t> order;
    for (size_t i = 0; i < plan.states.size(); ++i)
      order[plan.states[i]->name] = i;
    std::ranges::sort(names, {},
                      [&](const std::string &name) { return order.at(name); });
  }

  const plan::PlanT &plan;
  std::map<Key, KeptGroup> all;
};

} // namespace

/// All plans of an artifact have the states and the numbers that are asked for.
static PlanFile readAnyPlan(const std::string &path) {
  WorldPlans plans = WorldPlans::read(path, Trust::own);
  return plans.take(plans.worlds().front());
}

KeptArtifact fsdp::describeArtifact(const std::string &path) {
  PlanFile file = readAnyPlan(path);
  const plan::PlanT &plan = file.plan();
  KeptArtifact artifact;
  for (const SavedState &saved : savedStates(plan)) {
    if (isAverage(*saved.state))
      continue;
    std::vector<std::string> names = {saved.name};
    if (isOfModel(saved.state->role))
      names.insert(names.end(), saved.state->aliases.begin(),
                   saved.state->aliases.end());
    artifact.states.push_back({names, plan::EnumNameRole(saved.state->role),
                               std::string(dtypeName(saved.state->dtype)),
                               wholeShape(plan, *saved.state),
                               mayLack(*saved.state)});
  }
  artifact.groups = Groups(plan).take();
  artifact.microBatches = plan.training->gradient_accumulation_steps;
  artifact.seed = plan.training->seed;
  artifact.lr = plan.training->rates.empty()
                    ? 0
                    : readRate(*plan.states[plan.training->rates.front()]);
  artifact.schedule = plan.training->schedule
                          ? describeSchedule(*plan.training->schedule)
                          : "constant";
  return artifact;
}

std::optional<double> fsdp::rateFactor(const std::string &artifact,
                                       uint64_t step) {
  PlanFile file = readAnyPlan(artifact);
  const plan::TrainingT &training = *file.plan().training;
  if (!training.schedule || training.rates.empty())
    return 1;
  try {
    return RateSchedule(*training.schedule, training.lr, /*steps=*/0)
        .getFactor(step);
  } catch (const std::invalid_argument &) {
    return std::nullopt;
  }
}

//===----------------------------------------------------------------------===//
// Writing one
//===----------------------------------------------------------------------===//

namespace {

/// First values of states that no tensor was given for.
class FirstTensors {
public:
  FirstTensors(const plan::PlanT &plan, const std::string &folder)
      : plan(plan), folder(folder) {}

  const char *read(const plan::StateT &state) {
    if (isOfBase(state))
      throw Error(ErrorId::RuntimeUnsupported,
                  "'" + state.name +
                      "' begins with numbers of an adapter's base, which only "
                      "a run computes; give a checkpoint that has it");
    std::vector<int64_t> shape = wholeShape(plan, state);
    Region region = Region::all(shape);
    auto bytes =
        std::make_unique<char[]>(region.elements() * dtypeBytes(state.dtype));
    if (state.role == plan::Role::random) {
      uint64_t first[] = {plan.training->seed, 0};
      std::memcpy(bytes.get(), first, sizeof(first));
    } else {
      if (state.source && !model)
        model.emplace(*plan.model, folder, /*path=*/"");
      if (state.weight && !weights)
        weights.emplace(plan, folder, std::vector<std::string>(), false);
      FirstValues(plan, state, model ? &*model : nullptr,
                  weights ? &*weights : nullptr, /*checks=*/nullptr)
          .read(region, contiguousStrides(shape), bytes.get());
    }
    held.push_back(std::move(bytes));
    return held.back().get();
  }

private:
  const plan::PlanT &plan;
  const std::string folder;
  std::optional<ModelFile> model;
  std::optional<WeightReader> weights;
  std::vector<std::unique_ptr<char[]>> held;
};

} // namespace

/// Refuses a tensor that is not the state's.
static void checkTensor(const LentTensor &tensor, const plan::StateT &state,
                        const std::vector<int64_t> &shape) {
  if (tensor.dtype == dtypeName(state.dtype) && tensor.shape == shape)
    return;
  throw Error(ErrorId::CheckpointMismatch,
              "'" + tensor.name + "': expected " +
                  std::string(dtypeName(state.dtype)) + toString(shape) +
                  ", found " + std::string(tensor.dtype) +
                  toString(tensor.shape) +
                  "; give an artifact of the model that the tensors are of");
}

std::string fsdp::writeWholeCheckpoint(const std::string &artifact,
                                       const std::string &folder, uint64_t step,
                                       uint64_t rows,
                                       std::span<const LentTensor> tensors) {
  PlanFile file = readAnyPlan(artifact);
  const plan::PlanT &plan = file.plan();
  FirstTensors first(plan, fs::path(artifact).parent_path().string());
  Manifest manifest;
  std::vector<PieceToStore> pieces;
  for (const SavedState &saved : savedStates(plan)) {
    const plan::StateT &state = *saved.state;
    // A run that finds none begins them as the weights.
    if (isAverage(state))
      continue;
    std::vector<int64_t> shape = wholeShape(plan, state);
    auto given = std::ranges::find(tensors, saved.name, &LentTensor::name);
    if (given != tensors.end())
      checkTensor(*given, state, shape);
    else if (!mayLack(state))
      throw Error(ErrorId::CheckpointMismatch,
                  "expected a tensor '" + saved.name +
                      "', which the artifact's checkpoints have, found none; "
                      "give an artifact of the model and the optimizer that "
                      "the tensors are of");
    const char *data = given != tensors.end()
                           ? reinterpret_cast<const char *>(given->data)
                           : first.read(state);
    pieces.push_back({saved.name, state.dtype, Region::all(shape), data});
    manifest.states.push_back({saved.name, state.role, state.dtype, shape});
  }
  KeptArtifact kept = describeArtifact(artifact);
  manifest.step = step;
  manifest.rows = rows;
  manifest.seed = kept.seed;
  manifest.lr = kept.lr;
  manifest.schedule = kept.schedule;
  for (const auto &axis : plan.mesh)
    manifest.mesh.emplace_back(axis->name, axis->size);
  manifest.plan = file.hash();

  CheckpointFolder to(folder);
  to.checkWritable();
  try {
    to.begin(step);
    fs::path temporary = to.temporaryOf(step);
    manifest.files.push_back(writeCheckedFile(
        (temporary / "shard-00001-model-00001-of-00001.safetensors").string(),
        std::move(pieces)));
    writeFileAtomically((temporary / kManifestName).string(),
                        printManifest(manifest));
    to.commit(step);
  } catch (...) {
    to.discard(step);
    throw;
  }
  return to.nameOf(step);
}

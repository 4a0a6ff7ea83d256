//===- Door.cpp - An artifact as a Python program uses it -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "python/native/Door.h"

#include "plan/DType.h"
#include "plan/Quantized.h"
#include "plan/Shape.h"
#include "plan/StateParts.h"
#include "plan/Target.h"
#include "plan/plan_generated.h"
#include "runtime/states/Averages.h"
#include "runtime/states/Export.h"
#include "runtime/states/MergedStates.h"
#include "runtime/train/Checkpointer.h"
#include "support/Error.h"
#include "support/Nearest.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <mutex>

using namespace fsdp;

Door::Door(const LaunchOptions &options) : run(options) {
  Session &any = session();
  const plan::PlanT &plan = any.plan();
  first = any.rank();
  here = static_cast<int>(run.sessions().size());
  world = any.worldSize();
  data = static_cast<int>(plan.data_parallel);
  dataFirst = static_cast<int>(getDataRank(plan, first));
  dataHere =
      static_cast<int>(getDataRank(plan, first + here - 1)) + 1 - dataFirst;
  parts = any.microBatches();
  trains = any.isTraining();
  hasData = !options.session.dataPath.empty() ||
            (plan.data && !plan.data->files.empty());
  for (const auto &input : plan.inputs) {
    auto known = std::ranges::find(taken, input->name, &DoorInput::name);
    if (known == taken.end())
      known = taken.insert(
          taken.end(), {input->name, std::string(dtypeName(input->dtype)), {}});
    if (std::ranges::find(known->shapes, input->shape) == known->shapes.end())
      known->shapes.push_back(input->shape);
  }
  for (const auto &state : plan.states) {
    if (!isExported(*state))
      continue;
    std::vector<std::string> names = state->aliases;
    names.insert(names.begin(), state->name);
    model.push_back({names, std::string(dtypeName(modelDType(*state))),
                     modelShape(plan, *state)});
  }
  bounds.emplace(plan, first);
  // A step of grains gives the numbers in its metrics alone.
  if (!plan.training->grains)
    for (const OutputTensor &output : any.outputs())
      kept.push_back(output.name);
}

Door::~Door() = default;

Session &Door::session() const {
  run.checkOpen();
  return *run.sessions().front();
}

//===----------------------------------------------------------------------===//
// What a caller gives
//===----------------------------------------------------------------------===//

const DoorInput &Door::find(const std::string &name) const {
  auto it = std::ranges::find(taken, name, &DoorInput::name);
  if (it != taken.end())
    return *it;
  std::vector<std::string_view> names;
  std::string list;
  for (const DoorInput &input : taken) {
    names.push_back(input.name);
    list += (list.empty() ? "" : ", ") + input.name;
  }
  std::string_view near = findNearest(name, names);
  throw Error(
      ErrorId::DataNotKnown,
      "'" + name + "' is no input of the program, which takes " + list +
          (near.empty() ? "" : "; did you mean '" + std::string(near) + "'?"));
}

/// The whole tensor's, of so many parts.
static std::vector<int64_t> join(std::vector<int64_t> shape, uint64_t pieces) {
  if (!shape.empty())
    shape[0] *= static_cast<int64_t>(pieces);
  return shape;
}

std::string Door::describe(const DoorInput &input, uint64_t pieces) const {
  std::string text = input.name + ": " + input.dtype;
  for (size_t i = 0; i < input.shapes.size(); ++i)
    text += (i ? " or " : "") + toString(join(input.shapes[i], pieces));
  return text;
}

std::vector<int64_t> Door::shapeOfPart(const LentTensor &tensor,
                                       uint64_t pieces) const {
  const DoorInput &input = find(tensor.name);
  if (tensor.dtype != input.dtype)
    throw Error(ErrorId::DataType, "input '" + tensor.name + "' takes " +
                                       input.dtype + ", found " +
                                       std::string(tensor.dtype) +
                                       "; convert the tensor");
  for (const std::vector<int64_t> &shape : input.shapes)
    if (tensor.shape == join(shape, pieces))
      return shape;
  std::string text = "input " + describe(input, pieces) + " was expected";
  if (pieces > 1)
    text += " (" + std::to_string(dataHere) + " rank" +
            (dataHere == 1 ? "" : "s") +
            (pieces > static_cast<uint64_t>(dataHere)
                 ? ", " + std::to_string(parts) + " micro-batches"
                 : "") +
            ", each " + toString(input.shapes.front()) + ")";
  text += ", found " + toString(tensor.shape);
  const std::vector<int64_t> &one = input.shapes.front();
  bool isFixed = pieces > 1 && std::ranges::find(input.shapes, tensor.shape) !=
                                   input.shapes.end();
  bool isShort =
      input.shapes.size() == 1 && !one.empty() &&
      tensor.shape.size() == one.size() &&
      std::equal(one.begin() + 1, one.end(), tensor.shape.begin() + 1) &&
      tensor.shape[0] < join(one, pieces)[0];
  if (isFixed)
    text +=
        "; a batch has the rows of all of them, and what has no rows is given "
        "once, by hold(" +
        tensor.name + "=…)";
  else if (isShort)
    text += "; a shorter batch at the end of the data is left out by "
            "DataLoader(drop_last=True)";
  throw Error(ErrorId::DataShape, text);
}

void Door::checkIndices(const LentTensor &tensor,
                        const std::vector<int64_t> &shape,
                        uint64_t pieces) const {
  for (const auto &input : session().plan().inputs) {
    if (input->name != tensor.name || input->shape != shape ||
        bounds->of(*input).empty())
      continue;
    uint64_t bytes = *checkedExtent(shape, {}, dtypeBytes(input->dtype));
    uint64_t rows = shape.empty() ? 1 : static_cast<uint64_t>(shape[0]);
    for (uint64_t piece = 0; piece < (shape.empty() ? 1 : pieces); ++piece)
      bounds->check(*input, {tensor.data + piece * bytes, bytes},
                    [&](uint64_t row) {
                      return "row " + std::to_string(piece * rows + row);
                    });
    return;
  }
}

void Door::checkComplete(std::span<const LentTensor> batch,
                         uint64_t pieces) const {
  for (const DoorInput &input : taken) {
    if (held.contains(input.name) ||
        std::ranges::find(batch, input.name, &LentTensor::name) != batch.end())
      continue;
    std::string list;
    for (const DoorInput &each : taken)
      if (!held.contains(each.name))
        list += (list.empty() ? "" : ", ") + describe(each, pieces);
    throw Error(ErrorId::DataMissing, "input '" + input.name +
                                          "' was given nothing; expected " +
                                          list);
  }
}

/// What one rank reads of a batch in one of its micro-batches: the piece with
/// that number of all.
static std::vector<GivenInput> cut(std::span<const LentTensor> batch,
                                   std::span<const std::vector<int64_t>> shapes,
                                   uint64_t piece) {
  std::vector<GivenInput> inputs;
  for (size_t i = 0; i < batch.size(); ++i) {
    plan::DType dtype = *findDType(batch[i].dtype);
    uint64_t bytes = *checkedExtent(shapes[i], {}, dtypeBytes(dtype));
    // One without dims is the same for all.
    const std::byte *from =
        batch[i].data + (shapes[i].empty() ? 0 : piece * bytes);
    inputs.push_back({batch[i].name, shapes[i], {from, bytes}});
  }
  return inputs;
}

//===----------------------------------------------------------------------===//
// What comes back
//===----------------------------------------------------------------------===//

namespace {

/// Outputs of several ranks and micro-batches, behind one another.
class Joined {
public:
  explicit Joined(uint64_t pieces) : pieces(pieces) {}

  /// Called by each rank's thread, for pieces of its own.
  void put(const std::vector<OutputTensor> &outputs, uint64_t piece) {
    std::call_once(made, [&] {
      for (const OutputTensor &output : outputs) {
        std::vector<int64_t> shape = output.shape;
        if (shape.empty() && pieces > 1)
          shape = {1};
        all.push_back({output.name, output.dtype, join(shape, pieces),
                       std::make_unique_for_overwrite<std::byte[]>(
                           output.bytes.size() * pieces)});
      }
    });
    for (size_t i = 0; i < outputs.size(); ++i)
      std::memcpy(all[i].data.get() + piece * outputs[i].bytes.size(),
                  outputs[i].bytes.data(), outputs[i].bytes.size());
  }
  std::vector<JoinedOutput> take() { return std::move(all); }

private:
  const uint64_t pieces;
  std::once_flag made;
  std::vector<JoinedOutput> all;
};

/// Of each rank, from one call to the next.
Checkpointer *checkpointerOf(const OpenRank &rank) {
  return static_cast<Checkpointer *>(rank.own.get());
}

} // namespace

DoorStep Door::step(std::span<const LentTensor> batch) {
  Session &any = session();
  uint64_t pieces = parts * static_cast<uint64_t>(dataHere);
  std::vector<std::vector<int64_t>> shapes;
  for (const LentTensor &tensor : batch) {
    shapes.push_back(shapeOfPart(tensor, pieces));
    checkIndices(tensor, shapes.back(), pieces);
  }
  if (!hasData)
    checkComplete(batch, pieces);
  else if (batch.empty() && any.stepsLeft() == 0)
    throw Error(ErrorId::DataMissing,
                "the data's epochs have no rows for another step; "
                "data_options=\"epochs=N\" reads them more often");
  for (const LentTensor &tensor : batch)
    held.erase(tensor.name);
  DoorStep made;
  Joined outputs(pieces);
  run.run([&](OpenRank &rank) {
    Session &mine = rank.session;
    uint64_t row = getDataRank(mine.plan(), mine.rank());
    // Of ranks that compute a step together, the first one's are taken.
    bool isFirst = mine.rank() == first ||
                   getDataRank(mine.plan(), mine.rank() - 1) != row;
    uint64_t place = row - static_cast<uint64_t>(dataFirst);
    try {
      for (uint64_t part = 0; part < parts; ++part) {
        uint64_t piece = part * static_cast<uint64_t>(dataHere) + place;
        std::optional<StepResult> result =
            mine.microBatch(cut(batch, shapes, piece));
        if (isFirst && !kept.empty())
          outputs.put(mine.outputs(), piece);
        if (result && rank.number == 0)
          made.result = std::move(*result);
      }
    } catch (const Error &error) {
      // The numbers are bad, the ranks are not: what is being saved is kept.
      if (error.id() == ErrorId::NotFinite && rank.own)
        checkpointerOf(rank)->wait();
      throw;
    }
  });
  made.outputs = outputs.take();
  return made;
}

double Door::evaluate(std::span<const LentTensor> batch) {
  auto pieces = static_cast<uint64_t>(dataHere);
  std::vector<std::vector<int64_t>> shapes;
  for (const LentTensor &tensor : batch) {
    shapes.push_back(shapeOfPart(tensor, pieces));
    checkIndices(tensor, shapes.back(), pieces);
  }
  if (!session().plan().validation)
    throw Error(ErrorId::RuntimeUnsupported,
                "the artifact has no program for validation; compile the model "
                "with eval: {} in the config");
  // What is held is held for both.
  checkComplete(batch, pieces);
  double loss = 0;
  run.run([&](OpenRank &rank) {
    Session &mine = rank.session;
    uint64_t place = getDataRank(mine.plan(), mine.rank()) -
                     static_cast<uint64_t>(dataFirst);
    double own = mine.evaluate(cut(batch, shapes, place));
    if (rank.number == 0)
      loss = own;
  });
  return loss;
}

EvalResult Door::evaluate() {
  if (!session().canEvaluate())
    throw Error(ErrorId::RuntimeUnsupported,
                "no files for validation are named; give evaluate() batches, "
                "or name files with eval_data=, or with eval: {data: …} in the "
                "config");
  EvalResult found;
  run.run([&](OpenRank &rank) {
    EvalResult own = rank.session.evaluate();
    if (rank.number == 0)
      found = own;
  });
  return found;
}

void Door::hold(const LentTensor &tensor) {
  std::vector<int64_t> shape = shapeOfPart(tensor, /*pieces=*/1);
  checkIndices(tensor, shape, /*pieces=*/1);
  std::vector<GivenInput> given = cut({&tensor, 1}, {&shape, 1}, /*piece=*/0);
  run.run([&](OpenRank &rank) {
    rank.session.setInput(tensor.name, shape, given[0].bytes);
  });
  held.insert(tensor.name);
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

std::string Door::save(const std::string &path, uint64_t keep, bool isWaiting) {
  uint64_t steps = session().stepsDone();
  if (!trains)
    throw Error(ErrorId::RuntimeUnsupported,
                "the artifact trains nothing that a checkpoint could keep; "
                "export() writes the weights");
  bool isNew = folder != path || keeps != keep || folders == 0;
  folders += isNew;
  CheckpointOptions options;
  options.folder = path;
  options.keep = keep;
  options.name = "checkpoint " + std::to_string(folders);
  run.run([&](OpenRank &rank) {
    if (isNew && rank.own) {
      checkpointerOf(rank)->wait();
      rank.own.reset();
    }
    if (isNew)
      rank.own = std::make_shared<Checkpointer>(rank.session, options);
    checkpointerOf(rank)->save();
    if (isWaiting)
      checkpointerOf(rank)->finish();
  });
  folder = path;
  keeps = keep;
  return (std::filesystem::path(path) / ("step_" + std::to_string(steps)))
      .string();
}

void Door::load(const std::string &path, bool isOwn) {
  session();
  // A mistake that should not end the run; other ones do.
  if (std::error_code code; !std::filesystem::exists(path, code))
    throw Error(ErrorId::CheckpointMissing,
                "'" + path +
                    "' is not there; expected a checkpoint, a folder "
                    "of several, or safetensors files");
  if (isOwn)
    for (const auto &state : session().plan().states)
      if (state->quantized)
        throw Error(ErrorId::RuntimeUnsupported,
                    "'" + state->name +
                        "' is held in blocks of codes (quantize), which whole "
                        "numbers do not replace in a session that runs; open "
                        "one with weights=, or load() a checkpoint");
  run.run([&](OpenRank &rank) {
    if (rank.own) {
      checkpointerOf(rank)->wait();
      rank.own.reset();
    }
    rank.session.loadCheckpoint(path, isOwn);
  });
  folder.clear();
}

void Door::exportWeights(const std::string &path, uint64_t shardBytes,
                         Exported what) {
  // Here, where it does not end the run.
  if (what == Exported::Merged)
    listMerged(session().plan());
  if (what == Exported::Averaged)
    checkAverages(session().plan());
  run.run([&](OpenRank &rank) {
    rank.session.exportWeights(path, shardBytes, {}, what);
  });
}

uint64_t Door::findGreatest(uint64_t number) {
  session();
  if (here == world)
    return number;
  uint64_t found = number;
  run.run([&](OpenRank &rank) {
    uint64_t own = rank.session.findGreatest(number);
    if (rank.number == 0)
      found = own;
  });
  return found;
}

uint64_t Door::stepsDone() const { return session().stepsDone(); }

MemoryUse Door::memory() const { return session().memory(); }

void Door::close(const std::string &reason) {
  if (run.isOpen() && reason.empty())
    run.run([](OpenRank &rank) {
      if (rank.own) {
        checkpointerOf(rank)->wait();
        rank.own.reset();
      }
    });
  run.close(reason);
}

//===- Inputs.cpp - What each step reads ----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/session/Inputs.h"

#include "plan/DType.h"
#include "plan/Shape.h"
#include "plan/Target.h"
#include "runtime/data/DataOptions.h"
#include "runtime/log/Log.h"
#include "support/Error.h"
#include "support/Nearest.h"

#include <algorithm>
#include <cstring>
#include <set>

using namespace fsdp;

static std::string describe(const plan::InputT &input) {
  return std::string(dtypeName(input.dtype)) + toString(input.shape);
}

std::string fsdp::describeInputs(const plan::PlanT &plan,
                                 const plan::ProgramT &program) {
  std::string text;
  for (const auto &binding : program.arguments)
    if (binding->input >= 0) {
      const plan::InputT &input = *plan.inputs[binding->input];
      text += (text.empty() ? "" : ", ") + input.name + ": " + describe(input);
    }
  return text;
}

Inputs::Inputs(const plan::PlanT &plan,
               std::span<const std::vector<const plan::ProgramT *>> parts,
               int rank, const Arena &arena, Device &device,
               const InputSources &sources)
    : arena(arena), bounds(plan, rank), model(sources.model),
      data(sources.data), allowMissing(sources.allowMissing),
      source(openData(data)), ahead(device.makeAheadWriter()),
      ranks(sources.grains ? 1 : plan.data_parallel),
      position(sources.grains ? 0 : getDataRank(plan, rank)),
      // A rank's grains of a step follow one another.
      stride(parts.size() == 1 && sources.grains ? sources.grains : ranks),
      stepBatches(sources.grains ? sources.grains
                                 : ranks * sources.microBatches),
      isTold(rank == 0) {
  if (source)
    checkTensors(plan);
  for (size_t i = 0; i < parts[0].size(); ++i) {
    programs.push_back({parts[0][i]->name, {}});
    std::vector<Slot> &slots = programs.back().slots;
    for (const auto &part : parts)
      for (const auto &binding : part[i]->arguments) {
        if (binding->input < 0)
          continue;
        const plan::InputT *input = plan.inputs[binding->input].get();
        auto slot =
            std::find_if(slots.begin(), slots.end(),
                         [&](const Slot &slot) { return slot.input == input; });
        if (slot == slots.end())
          slot = slots.insert(
              slot, {input,
                     *checkedExtent(input->shape, {}, dtypeBytes(input->dtype)),
                     {}});
        slot->to.push_back(part[i]->values[binding->value]->offset);
      }
  }
  // With several programs and no data, a caller may still say which.
  if (source || (data.isSample && programs.size() == 1))
    findFitting();
}

/// A tensor that no input takes is probably the misspelt name of one that then
/// reads something else.
void Inputs::checkTensors(const plan::PlanT &plan) {
  std::vector<std::string_view> known;
  std::string list;
  for (const auto &input : plan.inputs) {
    known.push_back(input->name);
    list += (list.empty() ? "" : ", ") + input->name;
  }
  for (const std::string &name : source->names()) {
    if (std::ranges::count(data.ignored, name))
      continue;
    if (std::ranges::find(known, name) == known.end()) {
      std::string_view nearest = findNearest(name, known);
      throw Error(ErrorId::DataNotKnown,
                  "tensor '" + name + "' of " + source->describe() +
                      " is no input of the program, which takes " + list +
                      (nearest.empty()
                           ? ""
                           : "; did you mean '" + std::string(nearest) + "'?") +
                      "; --data-options=ignore=" + name + " leaves it unread");
    }
    if (std::ranges::count(data.exported, name))
      throw Error(ErrorId::BadUsage,
                  "--data-options: 'exported' names '" + name + "', which " +
                      source->describe() +
                      " has rows for; leave it out of one of them");
    sourceNames.push_back(name);
  }
  for (const auto &input : plan.inputs)
    if (source->makes(*input) &&
        !std::ranges::count(data.exported, input->name) &&
        !std::ranges::count(sourceNames, input->name))
      sourceNames.push_back(input->name);
}

void Inputs::warnOfFewRows(uint64_t microBatches) const {
  if (!batches || !isTold || batches->rows() >= globalRows() * microBatches)
    return;
  std::string reads = std::to_string(ranks) + " x " +
                      std::to_string(batchRows()) + " of " +
                      (ranks == 1 ? "one rank" : "the ranks");
  if (microBatches > 1)
    reads += ", in " + std::to_string(microBatches) + " micro-batches";
  log(LogLevel::warning,
      source->describe() + " has " + std::to_string(batches->rows()) +
          " rows, fewer than the " +
          std::to_string(globalRows() * microBatches) + " that a step reads (" +
          reads + "): rows are read several times within a step");
}

//===----------------------------------------------------------------------===//
// Which program
//===----------------------------------------------------------------------===//

/// Throws if the input has no data that fits it.
void Inputs::check(const plan::InputT &input) const {
  if (auto set = given.find(input.name); set != given.end()) {
    if (set->second.shape != input.shape)
      throw Error(ErrorId::DataShape,
                  "input '" + input.name + "' was given the shape " +
                      toString(set->second.shape) + "; expected " +
                      toString(input.shape));
    return;
  }
  if (isLabelCount(input))
    return checkLabelCount(input);
  bool isExported =
      data.isSample || std::ranges::count(data.exported, input.name);
  if (isExported && (input.sample || allowMissing))
    return;
  if (!isExported && source && source->open(input))
    return;
  std::string reason = "it was given nothing";
  std::string advice;
  if (isExported)
    reason = "the model file holds no sample of it";
  else if (source)
    reason = source->describe() + " has nothing for it";
  if (source && !isExported && input.sample)
    advice = "; --data-options=exported=" + input.name +
             " takes the sample that the model was exported with, in each step";
  throw Error(ErrorId::DataMissing, "input '" + input.name +
                                        "' has no data: " + reason +
                                        "; expected " + describe(input) +
                                        " a micro-batch and rank" + advice);
}

void Inputs::refuse(const std::vector<size_t> &fitting,
                    const std::vector<std::string> &reasons) const {
  std::string text;
  if (fitting.empty()) {
    for (size_t i = 0; i < programs.size(); ++i)
      text += (i ? "; " : "") + programs[i].name + ": " + reasons[i];
    throw Error(ErrorId::DataShape,
                "no program of the artifact takes these inputs: " + text);
  }
  for (size_t i : fitting) {
    text += (text.empty() ? "" : "; ") + programs[i].name + " (";
    for (size_t j = 0; j < programs[i].slots.size(); ++j)
      text += (j ? ", " : "") + programs[i].slots[j].input->name + ": " +
              describe(*programs[i].slots[j].input);
    text += ")";
  }
  throw Error(ErrorId::DataShape,
              "several programs of the artifact take these inputs, which "
              "differ in the number of rows or tokens alone: " +
                  text + "; choose one with --program=NAME");
}

Error fsdp::noData() {
  return Error(ErrorId::DataNotNamed,
               "there is no data: expected --data=FILE, or data in the config "
               "that the artifact was compiled with, or a value for each "
               "input; --data=sample takes the samples that the model was "
               "exported with, in each step");
}

/// Throws if the step cannot count labels for the input.
void Inputs::checkLabelCount(const plan::InputT &input) const {
  if ((input.dtype != plan::DType::f32 && input.dtype != plan::DType::f64) ||
      !input.shape.empty())
    throw Error(ErrorId::DataShape,
                "'label_count' names input '" + input.name + "', " +
                    describe(input) +
                    ", and a share of a number of labels is f32 or f64 without "
                    "dims; export the model with torch.tensor(1.0) for it");
  std::string labels = getLabelsInput(data);
  if (!std::ranges::count(sourceNames, labels) || given.contains(labels))
    throw Error(ErrorId::DataMissing,
                "'label_count' counts the labels of the data, which has none "
                "for input '" +
                    labels +
                    "'; name the input of labels with 'labels', or give '" +
                    input.name + "' a number for each step");
}

void Inputs::findFitting() {
  if (!source && !data.isSample && given.empty())
    throw noData();
  std::vector<size_t> found;
  std::vector<std::string> reasons(programs.size());
  std::optional<Error> alike; // what is wrong whatever the program
  for (size_t i = 0; i < programs.size(); ++i)
    try {
      for (const Slot &slot : programs[i].slots)
        check(*slot.input);
      found.push_back(i);
    } catch (const Error &error) {
      reasons[i] = error.what();
      if (i == 0)
        alike = error;
      else if (reasons[i] != reasons[0])
        alike.reset();
    }
  if (found.empty() && alike)
    throw *alike;
  if (found.empty() || (found.size() > 1 && !(source && source->lengths())))
    refuse(found, reasons);
  fitting = std::move(found);
  try {
    openBatches();
    // Lengths of what is not read tell nothing.
    if (fitting.size() > 1 && !isChoosing())
      refuse(fitting, reasons);
  } catch (...) {
    fitting.clear();
    throw;
  }
}

size_t Inputs::pick(uint64_t firstRow) {
  if (fitting.empty())
    findFitting();
  return fitting[batches ? batches->programOf(firstRow) : 0];
}

void Inputs::beginStepsAt(uint64_t firstRow) {
  stepBegin = firstRow;
  // What was read ahead is of steps that begin elsewhere.
  if (!fitting.empty())
    openBatches();
}

//===----------------------------------------------------------------------===//
// Data
//===----------------------------------------------------------------------===//

bool Inputs::isRead(const Slot &slot) const {
  return slot.bytes != 0 && !given.count(slot.input->name) &&
         std::ranges::count(sourceNames, slot.input->name);
}

void Inputs::openBatches() {
  batches.reset();
  onTheirWay.reset();
  std::vector<Batches::InputList> read;
  const plan::InputT *labels = nullptr;
  bool countsLabels = false;
  for (size_t program : fitting) {
    read.emplace_back();
    for (const Slot &slot : programs[program].slots) {
      const plan::InputT &input = *slot.input;
      countsLabels |= isLabelCount(input) && !given.contains(input.name);
      if (!isRead(slot))
        continue;
      read.back().push_back(&input);
      // Those of the program that cuts no row off.
      if (input.name == getLabelsInput(data) &&
          (!labels ||
           std::ranges::lexicographical_compare(labels->shape, input.shape)))
        labels = &input;
    }
  }
  if (read.front().empty())
    return;
  auto rows = static_cast<uint64_t>(batchRows());
  batches.emplace(*source, read, data, RankRows{stride, position, rows},
                  StepFacts{{stepBegin, stepBatches * rows},
                            countsLabels ? labels : nullptr});
}

std::optional<uint64_t> Inputs::countLabels(uint64_t firstRow) const {
  for (const Slot &slot : programs[fitting.front()].slots)
    if (isLabelCount(*slot.input) && !given.contains(slot.input->name))
      return batches->countLabels(firstRow);
  return std::nullopt;
}

/// So that the mean, over ranks and micro-batches, of sums that are divided by
/// it is the mean over all labels that count.
void Inputs::writeLabelCount(const plan::InputT &input, uint64_t to,
                             uint64_t firstRow) const {
  double share = static_cast<double>(batches->countLabels(firstRow)) /
                 static_cast<double>(stepBatches);
  if (input.dtype == plan::DType::f64)
    return arena.write(to, &share, sizeof(share));
  auto narrow = static_cast<float>(share);
  arena.write(to, &narrow, sizeof(narrow));
}

void Inputs::load(uint64_t firstRow, size_t part) {
  size_t program = pick(firstRow);
  // Another program's transient tensors lie where the inputs of this one are.
  bool isFirst = loaded != std::pair(part, program);
  std::span<const std::span<const std::byte>> rows;
  bool isAhead = onTheirWay == firstRow;
  if (batches && !isAhead)
    rows = batches->get(firstRow);
  onTheirWay.reset();
  size_t next = 0; // of what is read
  for (const Slot &slot : programs[program].slots) {
    const plan::InputT &input = *slot.input;
    uint64_t to = slot.to[part];
    if (slot.bytes == 0)
      continue;
    if (auto set = given.find(input.name); set != given.end()) {
      Given &given = set->second;
      if (given.isLent && !given.isNew)
        throw Error(ErrorId::DataMissing,
                    "input '" + input.name +
                        "' was given for one micro-batch, and nothing for the "
                        "next; give all micro-batches their inputs");
      if (given.isNew)
        bounds.check(input, given.bytes,
                     [](uint64_t row) { return "row " + std::to_string(row); });
      if (isFirst || given.isNew)
        arena.write(to, given.bytes.data(), slot.bytes);
      given.isNew = false;
    } else if (isRead(slot)) {
      if (isAhead) {
        ahead->put(next, arena.at(to));
      } else {
        checkRows(input, rows[next], next, firstRow);
        arena.write(to, rows[next].data(), slot.bytes);
      }
      ++next;
    } else if (isLabelCount(input)) {
      writeLabelCount(input, to, firstRow);
    } else if (isFirst) {
      if (input.sample && checkedSamples.insert(&input).second)
        model->checkEntry(model->entryOf(*input.sample), input.name);
      BytesToWrite sample(arena, to, slot.bytes);
      if (input.sample)
        model->readRows(*input.sample, input.shape, input.dtype, 0,
                        input.shape.empty() ? 1 : input.shape[0],
                        sample.data());
      else // Valid as indices, whatever they point into.
        std::memset(sample.data(), 0, slot.bytes);
      sample.flush();
    }
  }
  loaded = {part, program};
}

/// `bytes`: the input's, which is the `ofRead`th of those that are read.
void Inputs::checkRows(const plan::InputT &input,
                       std::span<const std::byte> bytes, size_t ofRead,
                       uint64_t firstRow) const {
  bounds.check(input, bytes, [&](uint64_t row) {
    return "row " + std::to_string(batches->rowOf(ofRead, firstRow, row)) +
           " of " + source->describe();
  });
}

void Inputs::loadAhead(uint64_t firstRow) {
  if (!ahead || !batches)
    return;
  const auto &rows = batches->get(firstRow);
  size_t next = 0;
  for (const Slot &slot : programs[pick(firstRow)].slots)
    if (isRead(slot)) {
      checkRows(*slot.input, rows[next], next, firstRow);
      ++next;
    }
  ahead->begin(rows);
  onTheirWay = firstRow;
}

std::vector<std::string> Inputs::paths() const {
  return source ? source->paths() : std::vector<std::string>();
}

std::string Inputs::lengthsHash() const {
  return source && source->lengths() ? source->lengths()->hash()
                                     : std::string();
}

std::optional<uint64_t> Inputs::dataRows() const {
  return batches ? std::optional(batches->rows()) : std::nullopt;
}

std::optional<uint64_t> Inputs::stepsFrom(uint64_t firstRow,
                                          uint64_t microBatches) const {
  return batches ? batches->stepsFrom(firstRow, globalRows() * microBatches)
                 : std::nullopt;
}

void Inputs::set(const std::string &name,
                 std::optional<std::vector<int64_t>> shape,
                 std::span<const std::byte> bytes) {
  Given &entry = give(name, shape, bytes.size());
  entry.own.assign(bytes.begin(), bytes.end());
  entry.bytes = entry.own;
  entry.isLent = false;
}

void Inputs::lend(std::span<const GivenInput> inputs) {
  for (const GivenInput &input : inputs) {
    Given &entry = give(input.name, input.shape, input.bytes.size());
    entry.own = {};
    entry.bytes = input.bytes;
    entry.isLent = true;
  }
}

void Inputs::withdraw() {
  if (std::erase_if(given, [](const auto &each) { return each.second.isLent; }))
    fitting.clear();
}

Inputs::Given &Inputs::give(const std::string &name,
                            const std::optional<std::vector<int64_t>> &shape,
                            size_t bytes) {
  std::set<std::vector<int64_t>> known, matching;
  const plan::InputT *any = nullptr;
  for (const Program &program : programs)
    for (const Slot &slot : program.slots) {
      if (slot.input->name != name)
        continue;
      any = slot.input;
      known.insert(slot.input->shape);
      if (bytes == slot.bytes && (!shape || *shape == slot.input->shape))
        matching.insert(slot.input->shape);
    }
  if (!any)
    throw Error(ErrorId::DataMissing,
                "the program has no input '" + name + "'");
  if (matching.size() != 1) {
    std::string shapes;
    for (const std::vector<int64_t> &each : known)
      shapes += (shapes.empty() ? "" : " or ") + toString(each);
    throw Error(ErrorId::DataShape,
                "input '" + name + "' takes " +
                    std::string(dtypeName(any->dtype)) + " of shape " + shapes +
                    ", found " + std::to_string(bytes) + " bytes" +
                    (shape ? " of shape " + toString(*shape) : "") +
                    (matching.empty() ? "" : "; say which shape they have"));
  }
  auto [it, isFirst] = given.try_emplace(name);
  Given &entry = it->second;
  // Its rows are no longer read, or another program is to be picked.
  if (isFirst || entry.shape != *matching.begin())
    fitting.clear();
  entry.shape = *matching.begin();
  entry.isNew = true;
  return entry;
}

int64_t Inputs::batchRows() const {
  for (const Slot &slot : programs[fitting.empty() ? 0 : fitting.front()].slots)
    if (!slot.input->shape.empty())
      return slot.input->shape[0];
  return 1;
}

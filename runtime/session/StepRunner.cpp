//===- StepRunner.cpp - The steps of a session ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/session/StepRunner.h"

#include "plan/DType.h"
#include "plan/Groups.h"
#include "plan/Shape.h"
#include "runtime/comm/FlightRing.h"
#include "runtime/profile/Recorder.h"
#include "support/LossWeight.h"

using namespace fsdp;

static constexpr const char *kLoss = "loss";
static constexpr const char *kGradNorm = "grad_norm";

StepRunner::StepRunner(Workplace &place, const StepPrograms &programs,
                       const std::optional<StepGrains> &grains, Inputs &inputs,
                       const LearningRates &rates,
                       const SessionOptions &options)
    : place(place), programs(programs), grains(grains), inputs(inputs),
      rates(rates),
      nonFinite(place.plan, place.fabric, programs.isTraining(), options),
      poisons(options.poison) {
  for (const auto &part : programs.parts) {
    prepared.emplace_back();
    for (const plan::ProgramT *program : part)
      prepared.back().push_back(prepare(*program));
  }
}

StepRunner::Prepared StepRunner::prepare(const plan::ProgramT &program) {
  Prepared result;
  result.executor = std::make_unique<Executor>(place.context(), program);
  for (const auto &binding : program.results) {
    const std::string &name = binding->output;
    // A training program reports these two as means over the ranks.
    if (programs.isTraining() && (name == kLoss || name == kGradNorm)) {
      result.metrics.emplace_back(name, binding.get());
    } else if (!binding->norms.empty()) {
      result.norms.push_back(binding.get());
    } else if (!binding->metric.empty()) {
      result.metrics.emplace_back(binding->metric, binding.get());
    } else if (!name.empty()) {
      const plan::ValueT &value = *program.values[binding->value];
      const at::Tensor &tensor = result.executor->getResult(*binding);
      auto *begin = static_cast<const std::byte *>(tensor.const_data_ptr());
      uint64_t bytes = *checkedExtent(value.shape, {}, dtypeBytes(value.dtype));
      if (!place.arena.isHost()) {
        result.places.push_back(reinterpret_cast<const char *>(begin));
        result.copies.push_back(std::make_unique<std::byte[]>(bytes));
        begin = result.copies.back().get();
      }
      result.outputs.push_back(
          {name, dtypeName(value.dtype), value.shape, {begin, bytes}});
    }
  }
  return result;
}

std::vector<Executor *> StepRunner::executors() const {
  std::vector<Executor *> list;
  for (const auto &part : prepared)
    for (const Prepared &program : part)
      list.push_back(program.executor.get());
  return list;
}

void StepRunner::agree() {
  if (programs.parts[0].size() > 1)
    agreement.emplace(place.fabric);
}

void StepRunner::vacate() {
  if (!poisons)
    return;
  place.poison();
  inputs.forget();
}

void StepRunner::resume() {
  inputs.forget();
  missedBefore = place.memory.missedBytes();
}

void StepRunner::continueAt(uint64_t step, uint64_t rows) {
  nextMicroBatch = step * programs.microBatches;
  rowsRead = rows;
  inputs.beginStepsAt(rows);
}

const std::vector<OutputTensor> &StepRunner::outputs() {
  Prepared &last = prepared[lastPart][lastProgram];
  if (!last.copies.empty() && last.copiedAt != nextMicroBatch && hasRun) {
    for (size_t i = 0; i < last.copies.size(); ++i)
      place.device->memory().read(last.copies[i].get(), last.places[i],
                                  last.outputs[i].bytes.size());
    last.copiedAt = nextMicroBatch;
  }
  return last.outputs;
}

/// Of the micro-batch that comes next, in the data's order.
uint64_t StepRunner::firstRow() const {
  if (!grains)
    return rowsRead;
  // A rank without a grain for it reads its last one again.
  uint64_t number = std::min<uint64_t>(nextMicroBatch % programs.microBatches,
                                       grains->own.count - 1);
  return rowsRead + (grains->own.first + number) *
                        static_cast<uint64_t>(inputs.batchRows());
}

/// Of a micro-batch that has run.
void StepRunner::countRows() {
  if (!grains)
    rowsRead += inputs.globalRows();
  else if (nextMicroBatch % programs.microBatches == 0)
    rowsRead += grains->total * static_cast<uint64_t>(inputs.batchRows());
}

static void loadInputs(Inputs &inputs, uint64_t row, size_t part,
                       ProfileRecorder *recorder) {
  if (!recorder)
    return inputs.load(row, part);
  ProfileRecorder::Marked marked(*recorder, DeviceMark::kInputs);
  inputs.load(row, part);
  recorder->endLoading();
}

std::optional<StepResult> StepRunner::run(std::span<const GivenInput> given) {
  inputs.lend(given);
  const uint64_t count = programs.microBatches, number = nextMicroBatch % count;
  StepResult result;
  result.step = nextMicroBatch / count;
  size_t part = programs.partOf(number);
  size_t picked = inputs.pick(firstRow());
  // What a file or the samples say cannot change after the first micro-batch.
  if (agreement && (inputs.isSet() || !hasRun))
    agreement->check(picked, programs.parts[part], result.step);
  hasRun = true;
  vacate();
  if (number == 0)
    place.transfers.resetTraffic();
  runProgram(part, picked, number, result);
  lastPart = part;
  lastProgram = picked;
  ++nextMicroBatch;
  countRows();
  inputs.loadAhead(firstRow());
  if (nextMicroBatch % count != 0)
    return std::nullopt;
  finishStep(result);
  return result;
}

void StepRunner::runProgram(size_t part, size_t picked, uint64_t number,
                            StepResult &result) {
  const uint64_t step = result.step;
  const plan::ProgramT &program = *programs.parts[part][picked];
  if (FlightRing *ring = place.fabric.flights())
    ring->beginMicroBatch(step, static_cast<uint32_t>(number));
  if (recorder)
    recorder->beginRun(step, number, program);
  loadInputs(inputs, firstRow(), part, recorder);
  if (programs.isTraining()) {
    std::optional<double> lr = rates.set(step);
    result.lr = lr ? lr : place.plan.training->lr;
  }
  Executor &executor = *prepared[part][picked].executor;
  executor.setMicroBatch(number);
  if (nonFinite.isTracing()) {
    NonFiniteTrace trace(program, executor.tensors());
    executor.run(step, trace);
    nonFinite.note(program, executor, trace);
  } else {
    place.device->run(executor, step, recorder);
  }
  if (recorder)
    recorder->endRun();
}

void StepRunner::readNorms(const Prepared &program, StepResult &result) const {
  for (const plan::BindingT *binding : program.norms) {
    const at::Tensor &tensor = program.executor->getResult(*binding);
    std::vector<float> numbers(binding->norms.size());
    // The plan was verified: they are as many, in float32.
    place.device->memory().read(
        numbers.data(), static_cast<const char *>(tensor.const_data_ptr()),
        numbers.size() * sizeof(float));
    for (size_t i = 0; i < numbers.size(); ++i)
      result.norms.emplace_back(binding->norms[i], numbers[i]);
  }
}

void StepRunner::finishStep(StepResult &result) {
  const Prepared &last = prepared[lastPart][lastProgram];
  result.program = programs.parts[lastPart][lastProgram]->name;
  uint64_t missed = place.memory.missedBytes();
  result.unplannedBytes = missed - std::exchange(missedBefore, missed);
  std::vector<at::Tensor> tensors;
  for (const auto &entry : last.metrics)
    tensors.push_back(last.executor->getResult(*entry.second));
  std::vector<double> numbers = place.device->readNumbers(tensors);
  std::optional<double> weight;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const std::string &name = last.metrics[i].first;
    if (name == kLossWeight)
      weight = numbers[i];
    else if (name == kLoss)
      result.loss = numbers[i];
    else if (name == kGradNorm && programs.isTraining())
      result.gradNorm = numbers[i];
    else
      result.metrics.emplace_back(name, numbers[i]);
  }
  if (weight && result.loss)
    *result.loss /= *weight;
  readNorms(last, result);
  if (place.device->isHost())
    result.exposedSeconds = place.transfers.secondsWaited();
  for (const auto &[key, traffic] : place.transfers.traffic())
    result.collectives.push_back({std::string(key.second),
                                  getGroupLabel(key.first), traffic.calls,
                                  traffic.bytes});
  if (programs.isTraining())
    nonFinite.judge(result, place.arena);
}

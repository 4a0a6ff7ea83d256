//===- Simulator.cpp - How a plan will run --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/Simulator.h"

#include "plan/Instructions.h"
#include "plan/Target.h"
#include "plan/Tokens.h"
#include "simulate/CommunicatorMemory.h"
#include "simulate/InstructionCost.h"
#include "simulate/TransientBytes.h"
#include "support/Error.h"

#include <algorithm>
#include <set>

using namespace fsdp;

namespace {

class ProgramRun {
public:
  ProgramRun(const plan::PlanT &plan, const plan::ProgramT &program,
             const Cluster &cluster, const EngineOptions &options)
      : program(program), options(options), costs(plan, cluster, options),
        byFuture(program.futures) {}

  PredictedProgram run();

private:
  void add(uint32_t number, const plan::InstructionT &instruction);
  void addStart(uint32_t number, const plan::InstructionT &instruction,
                const InstructionCost &cost);
  /// When the lane of kernels gets to each step, and to the end.
  std::vector<double> getMoments(const LaneTimes &times) const;

  const plan::ProgramT &program;
  const EngineOptions &options;
  InstructionCosts costs;
  PredictedProgram result;
  std::vector<LaneStep> steps;
  std::vector<uint32_t> byFuture; ///< transfers
  std::vector<size_t> usedAt;     ///< by use: steps before it
};

void ProgramRun::addStart(uint32_t number,
                          const plan::InstructionT &instruction,
                          const InstructionCost &cost) {
  PredictedTransfer transfer{};
  transfer.start = transfer.wait = number;
  transfer.stream = static_cast<plan::Stream>(cost.step.lane);
  transfer.bytes = cost.bytes;
  transfer.alone = cost.step.seconds;
  if (const plan::CopyAcrossT *copy = instruction.body.AsCopyAcross()) {
    transfer.bucket = copy->bucket;
    transfer.kind = plan::EnumNameStream(copy->stream);
  } else {
    const plan::TransferT &collective = *transferOf(instruction);
    transfer.bucket = collective.bucket;
    transfer.kind = getName(collective.kind);
  }
  byFuture[cost.future] = static_cast<uint32_t>(result.transfers.size());
  result.transfers.push_back(std::move(transfer));
}

void ProgramRun::add(uint32_t number, const plan::InstructionT &instruction) {
  InstructionCost cost = costs.cost(program, instruction);
  LaneStep &step = cost.step;
  if (step.kind == LaneStep::kernel) {
    if (cost.work.kind == WorkKind::none)
      return;
    result.flops += cost.work.flops;
    result.kernels.push_back({{0, 0}, number, cost.work.kind});
  } else {
    if (step.kind == LaneStep::start)
      addStart(number, instruction, cost);
    step.transfer = byFuture[cost.future];
    if (step.kind == LaneStep::wait)
      result.transfers[step.transfer].wait = number;
  }
  steps.push_back(step);
}

std::vector<double> ProgramRun::getMoments(const LaneTimes &times) const {
  std::vector<double> moments;
  moments.reserve(steps.size() + 1);
  size_t kernel = 0;
  for (const LaneStep &step : steps)
    moments.push_back(
        step.kind == LaneStep::kernel  ? times.kernels[kernel++].begin
        : step.kind == LaneStep::start ? times.transfers[step.transfer].given
                                       : times.transfers[step.transfer].asked);
  moments.push_back(times.seconds);
  return moments;
}

PredictedProgram ProgramRun::run() {
  std::vector<uint64_t> bytes = getTransientBytes(program);
  uint64_t before = 0;
  for (uint32_t i = 0; i < program.instructions.size(); ++i) {
    if (bytes[i] != before) {
      result.uses.push_back({i, 0, bytes[i]});
      usedAt.push_back(steps.size());
    }
    before = bytes[i];
    add(i, *program.instructions[i]);
  }
  LaneTimes times = runLanes(steps, options);
  result.seconds = times.seconds;
  result.compute = times.compute;
  result.exposed = times.exposed;
  result.idle = times.idle;
  for (size_t i = 0; i < result.kernels.size(); ++i) {
    PredictedKernel &kernel = result.kernels[i];
    static_cast<KernelTimes &>(kernel) = times.kernels[i];
    result.byKind[size_t(kernel.kind)] += kernel.end - kernel.begin;
  }
  for (size_t i = 0; i < result.transfers.size(); ++i)
    static_cast<TransferTimes &>(result.transfers[i]) = times.transfers[i];
  std::vector<double> moments = getMoments(times);
  for (size_t i = 0; i < result.uses.size(); ++i)
    result.uses[i].at = moments[usedAt[i]];
  return std::move(result);
}

} // namespace

EngineOptions fsdp::getEngineOptions(const plan::PlanT &plan,
                                     const Cluster &cluster) {
  EngineOptions options;
  options.issue = cluster.device.issue;
  auto ranks =
      std::min<int64_t>(int64_t(getWorldSize(plan)), cluster.ranksPerNode);
  if (cluster.device.isHost)
    options.ranksPerCore = double(ranks) / cluster.device.cores;
  options.skew = cluster.skewOf(ranks);
  return options;
}

/// What is known before anything runs.
static Prediction describeHardware(const plan::PlanT &plan,
                                   const Cluster &cluster) {
  bool isOnHost = isForHost(plan);
  if (isOnHost != cluster.device.isHost)
    throw Error(ErrorId::ConfigBadValue,
                "expected a cluster whose device is of kind " +
                    std::string(isOnHost ? "cpu" : "cuda") +
                    ", as the plan's is; found '" + cluster.name +
                    "', of kind " + (isOnHost ? "cuda" : "cpu") +
                    "; 'device' of the config says what a step is compiled "
                    "for, without it --cluster does");
  Prediction prediction;
  prediction.cluster = cluster.name;
  prediction.ranks = int64_t(getWorldSize(plan));
  prediction.nodes =
      (prediction.ranks + cluster.ranksPerNode - 1) / cluster.ranksPerNode;
  if (plan.memory) {
    prediction.planned = plan.memory->peak;
    prediction.scratch = plan.memory->scratch_bound;
    prediction.scratchUnknown = plan.memory->scratch_unknown;
    // Of an artifact that was made before they were counted.
    if (!isOnHost && prediction.scratch == 0)
      prediction.scratchUnknown = {"all"};
  }
  if (plan.host)
    prediction.hostPlanned = plan.host->peak;
  prediction.reserved = uint64_t(cluster.device.reserved);
  CommunicatorMemory communicators =
      getCommunicatorMemory(plan, cluster.network);
  prediction.communicators = communicators.bytes;
  prediction.communicatorCount = communicators.count;
  prediction.capacity = uint64_t(cluster.device.memory);
  // The ranks of a node share its memory, and both regions are in it.
  prediction.isHost = cluster.device.isHost;
  if (prediction.isHost)
    prediction.capacity /=
        uint64_t(std::min(prediction.ranks, cluster.ranksPerNode));
  return prediction;
}

/// Of all ranks in a step; all of its programs read rows of one size.
static double countStepTokens(const plan::PlanT &plan,
                              const plan::ProgramT &program) {
  std::optional<TokenCount> tokens = countTokens(plan, program);
  if (!tokens)
    return 0;
  double batches = plan.data_parallel;
  if (plan.training && program.kind == plan::ProgramKind::train)
    batches = plan.training->grains != 0
                  ? plan.training->grains
                  : batches * plan.training->gradient_accumulation_steps;
  return batches * double(tokens->rows) * double(tokens->perRow);
}

static void add(PredictedProgram run, Prediction &prediction) {
  prediction.seconds += run.runs * run.seconds;
  prediction.compute += run.runs * run.compute;
  prediction.exposed += run.runs * run.exposed;
  prediction.idle += run.runs * run.idle;
  prediction.flops += run.runs * run.flops;
  for (const PredictedTransfer &transfer : run.transfers)
    if (transfer.stream != plan::Stream::upload &&
        transfer.stream != plan::Stream::download)
      prediction.wireBytes += run.runs * transfer.bytes;
  prediction.programs.push_back(std::move(run));
}

Prediction fsdp::simulate(const plan::PlanT &plan, const Cluster &cluster) {
  Prediction prediction = describeHardware(plan, cluster);
  EngineOptions options = getEngineOptions(plan, cluster);
  uint32_t microBatches =
      plan.training ? plan.training->gradient_accumulation_steps : 1;
  std::set<Entry> seen;
  bool trains = std::ranges::any_of(plan.programs, [](const auto &program) {
    return program->kind == plan::ProgramKind::train;
  });
  for (uint32_t i = 0; i < plan.programs.size(); ++i) {
    const plan::ProgramT &program = *plan.programs[i];
    Entry entry = getEntry(program);
    if ((entry.kind == plan::ProgramKind::train) != trains ||
        (!trains && entry.kind != plan::ProgramKind::infer) ||
        !seen.insert(entry).second)
      continue;
    if (prediction.programs.empty())
      prediction.tokens = countStepTokens(plan, program);
    PredictedProgram run = ProgramRun(plan, program, cluster, options).run();
    run.program = i;
    run.runs = entry.part == plan::StepPart::middle
                   ? (microBatches > 2 ? microBatches - 2 : 0)
                   : 1;
    add(std::move(run), prediction);
  }
  return prediction;
}

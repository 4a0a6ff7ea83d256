//===- Simulator.cpp - How a plan will run --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/Simulator.h"

#include "plan/DType.h"
#include "plan/Instructions.h"
#include "simulate/CollectiveModel.h"
#include "simulate/ComputeModel.h"
#include "support/Error.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <optional>

using namespace fsdp;

namespace {

enum Resource : uint8_t { Processor, Memory, Link, Network, kResources };
using Shares = std::array<double, kResources>;

/// What a lane does.
struct Job {
  double left = 0; ///< seconds, alone
  Shares shares{};
};

constexpr size_t kLanes = size_t(plan::Stream::MAX) + 1;

class ProgramRun {
public:
  ProgramRun(const plan::PlanT &plan, const plan::ProgramT &program,
             const Cluster &cluster)
      : plan(plan), program(program), cluster(cluster), compute(cluster),
        collectives(cluster), byFuture(program.futures) {
    int64_t ranks = 1;
    for (const auto &axis : plan.mesh)
      ranks *= axis->size;
    if (cluster.device.cores > 0)
      ranksPerCore =
          double(std::min(ranks, cluster.ranksPerNode)) / cluster.device.cores;
  }

  PredictedProgram run();

private:
  /// Gives the lane of kernels its next instructions until it has one to do, or
  /// waits.
  void advance();
  void start(uint32_t number, const plan::InstructionT &instruction);
  void fillLanes();
  double speedOf(const Job &job, const Shares &wanted, bool isKernel) const;
  void step();
  void noteUse(uint32_t number, const plan::InstructionT &instruction);

  const plan::PlanT &plan;
  const plan::ProgramT &program;
  const Cluster &cluster;
  ComputeModel compute;
  CollectiveModel collectives;
  double ranksPerCore = 0; ///< 0: kernels have a device of their own

  PredictedProgram result;
  double now = 0, issued = 0;
  uint32_t next = 0;
  std::optional<Job> kernel;
  std::optional<size_t> waiting;                ///< a transfer
  std::vector<size_t> byFuture;                 ///< transfers
  std::vector<Job> jobs;                        ///< of transfers
  std::vector<bool> done;                       ///< transfers
  std::array<std::deque<size_t>, kLanes> lanes; ///< transfers; front: active
  uint64_t use = 0;
};

void ProgramRun::noteUse(uint32_t number,
                         const plan::InstructionT &instruction) {
  uint64_t before = use;
  auto room = [&](uint32_t index) -> uint64_t {
    const plan::ValueT &value = *program.values[index];
    return value.place == plan::Place::slot &&
                   value.memory == plan::MemorySpace::device
               ? value.bytes
               : 0;
  };
  for (uint32_t index : valuesOf(instruction, defines))
    use += room(index);
  if (const plan::FreeT *op = instruction.body.AsFree())
    for (uint32_t index : op->values)
      use -= std::min(use, room(index));
  if (use != before)
    result.uses.push_back({number, now, use});
}

void ProgramRun::start(uint32_t number, const plan::InstructionT &instruction) {
  PredictedTransfer transfer{};
  transfer.start = transfer.wait = number;
  transfer.given = now;
  TransferCost cost;
  uint32_t future = 0;
  if (const plan::CopyAcrossT *copy = instruction.body.AsCopyAcross()) {
    for (uint32_t output : copy->outputs)
      transfer.bytes += program.values[output]->bytes;
    transfer.bucket = copy->bucket;
    transfer.kind = plan::EnumNameStream(copy->stream);
    transfer.stream = copy->stream;
    future = copy->future;
    cost = collectives.copy(copy->to == plan::MemorySpace::host,
                            double(transfer.bytes), copy->outputs.size());
  } else {
    TransferStart collective = *startOf(instruction);
    transfer.bytes = collective.bytes(plan, program);
    transfer.bucket = collective.bucket;
    transfer.kind = getName(collective.kind);
    transfer.stream = collective.stream;
    future = collective.future;
    cost = collectives.collective(collective.kind, double(transfer.bytes),
                                  *plan.groups[collective.group]);
  }
  transfer.alone = cost.seconds;
  Job job{cost.seconds, {cost.processor, cost.memory, cost.link, cost.network}};
  if (ranksPerCore > 0)
    job.shares[Processor] *= ranksPerCore;
  byFuture[future] = result.transfers.size();
  lanes[size_t(transfer.stream)].push_back(result.transfers.size());
  result.transfers.push_back(std::move(transfer));
  jobs.push_back(job);
  done.push_back(false);
}

void ProgramRun::advance() {
  while (!kernel && !waiting && next < program.instructions.size()) {
    const plan::InstructionT &instruction = *program.instructions[next];
    uint32_t number = next++;
    if (const plan::WaitT *wait = instruction.body.AsWait()) {
      size_t index = byFuture[wait->future];
      result.transfers[index].wait = number;
      result.transfers[index].asked = now;
      if (!done[index])
        waiting = index;
      continue;
    }
    noteUse(number, instruction);
    if (instruction.body.type == plan::Body::Free)
      continue;
    issued += cluster.device.issue;
    if (flightOf(instruction)) {
      start(number, instruction);
      continue;
    }
    Work work = estimateWork(plan, program, instruction);
    if (work.kind == WorkKind::none)
      continue;
    // The host is ahead, or the device waits for it; a host that computes
    // issues nothing meanwhile.
    double seconds = compute.seconds(work);
    if (cluster.device.isHost) {
      seconds += cluster.device.issue;
    } else if (issued > now) {
      result.idle += issued - now;
      seconds += issued - now;
    }
    result.flops += work.flops;
    result.byKind[size_t(work.kind)] += seconds;
    Job job{seconds, {1, compute.memoryShare(work), 0, 0}};
    if (ranksPerCore > 0)
      job.shares[Processor] = ranksPerCore;
    kernel = job;
    result.kernels.push_back({number, work.kind, now, now});
  }
}

void ProgramRun::fillLanes() {
  for (auto &lane : lanes)
    while (!lane.empty() && jobs[lane.front()].left <= 0) {
      PredictedTransfer &transfer = result.transfers[lane.front()];
      if (transfer.begin == 0 && transfer.end == 0)
        transfer.begin = now;
      transfer.end = now;
      done[lane.front()] = true;
      if (waiting == lane.front())
        waiting.reset();
      lane.pop_front();
    }
  for (auto &lane : lanes)
    if (!lane.empty() && result.transfers[lane.front()].end == 0) {
      result.transfers[lane.front()].begin = now;
      // Marks it as begun.
      result.transfers[lane.front()].end =
          std::numeric_limits<double>::infinity();
    }
}

double ProgramRun::speedOf(const Job &job, const Shares &wanted,
                           bool isKernel) const {
  double speed = 1;
  for (size_t resource = 0; resource < kResources; ++resource) {
    if (job.shares[resource] == 0 || wanted[resource] <= 1)
      continue;
    bool isApart = resource == Processor && ranksPerCore == 0;
    if (!isApart)
      speed = std::min(speed, 1 / wanted[resource]);
    else if (isKernel)
      speed = std::min(speed, std::max(0.05, 2 - wanted[resource]));
  }
  return speed;
}

/// To the next moment at which something ends.
void ProgramRun::step() {
  Shares wanted{};
  auto want = [&](const Job &job) {
    for (size_t resource = 0; resource < kResources; ++resource)
      wanted[resource] += job.shares[resource];
  };
  if (kernel)
    want(*kernel);
  for (const auto &lane : lanes)
    if (!lane.empty())
      want(jobs[lane.front()]);
  double span = std::numeric_limits<double>::infinity();
  double kernelSpeed = 1;
  std::array<double, kLanes> speeds{};
  if (kernel) {
    kernelSpeed = speedOf(*kernel, wanted, /*isKernel=*/true);
    span = kernel->left / kernelSpeed;
  }
  for (size_t i = 0; i < kLanes; ++i)
    if (!lanes[i].empty()) {
      const Job &job = jobs[lanes[i].front()];
      speeds[i] = speedOf(job, wanted, /*isKernel=*/false);
      span = std::min(span, job.left / speeds[i]);
    }
  now += span;
  if (kernel) {
    result.compute += span;
    kernel->left -= span * kernelSpeed;
    if (kernel->left <= span * 1e-9 + 1e-15) {
      result.kernels.back().end = now;
      kernel.reset();
    }
  } else if (waiting) {
    result.exposed += span;
  }
  for (size_t i = 0; i < kLanes; ++i)
    if (!lanes[i].empty()) {
      Job &job = jobs[lanes[i].front()];
      job.left -= span * speeds[i];
      if (job.left <= span * 1e-9 + 1e-15)
        job.left = 0;
    }
}

PredictedProgram ProgramRun::run() {
  for (;;) {
    advance();
    fillLanes();
    if (!kernel && !waiting && next < program.instructions.size())
      continue;
    bool isActive = kernel.has_value();
    for (const auto &lane : lanes)
      isActive |= !lane.empty();
    if (!isActive)
      break;
    step();
  }
  result.seconds = now;
  result.compute -= result.idle;
  return std::move(result);
}

} // namespace

Prediction fsdp::simulate(const plan::PlanT &plan, const Cluster &cluster) {
  bool isForHost = !plan.training || !plan.training->device.starts_with("cuda");
  if (isForHost != cluster.device.isHost)
    throw Error(ErrorId::ConfigBadValue,
                "expected a cluster whose device is of kind " +
                    std::string(isForHost ? "cpu" : "cuda") +
                    ", as the plan's is; found '" + cluster.name +
                    "', of kind " + (isForHost ? "cuda" : "cpu") +
                    "; see 'device' of the config");
  Prediction prediction;
  prediction.cluster = cluster.name;
  for (const auto &axis : plan.mesh)
    prediction.ranks *= axis->size;
  prediction.nodes =
      (prediction.ranks + cluster.ranksPerNode - 1) / cluster.ranksPerNode;
  if (plan.memory) {
    prediction.planned = plan.memory->peak;
    prediction.scratch = plan.memory->scratch_bound;
  }
  if (plan.host)
    prediction.hostPlanned = plan.host->peak;
  prediction.reserved = uint64_t(cluster.device.reserved);
  prediction.capacity = uint64_t(cluster.device.memory);

  uint32_t microBatches =
      plan.training ? plan.training->gradient_accumulation_steps : 1;
  std::map<Entry, bool> seen;
  bool trains = std::ranges::any_of(plan.programs, [](const auto &program) {
    return program->kind == plan::ProgramKind::train;
  });
  for (uint32_t i = 0; i < plan.programs.size(); ++i) {
    const plan::ProgramT &program = *plan.programs[i];
    Entry entry = getEntry(program);
    if ((entry.kind == plan::ProgramKind::train) != trains ||
        (!trains && entry.kind != plan::ProgramKind::infer) ||
        !seen.emplace(entry, true).second)
      continue;
    PredictedProgram run = ProgramRun(plan, program, cluster).run();
    run.program = i;
    run.runs = entry.part == plan::StepPart::middle
                   ? (microBatches > 2 ? microBatches - 2 : 0)
                   : 1;
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
  return prediction;
}

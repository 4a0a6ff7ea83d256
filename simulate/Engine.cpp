//===- Engine.cpp - Lanes that share resources ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/Engine.h"

#include <algorithm>
#include <limits>
#include <optional>

using namespace fsdp;

static constexpr double kNever = std::numeric_limits<double>::infinity();
/// Kernels go on, however many transfers take multiprocessors.
static constexpr double kLeastSpeed = 0.05;

namespace {

struct Job {
  double left; ///< seconds, alone
  const Shares *shares;
  /// Of a transfer while kernels run: how fast it is, 0: by its share of the
  /// processor; and what part of their speed they lose.
  double besideSpeed = 0, takes = 0;

  void spend(double seconds, double speed) {
    left -= seconds * speed;
    // What rounding leaves is nothing.
    if (left <= 1e-9 * seconds)
      left = 0;
  }
};

class Engine {
public:
  Engine(const std::vector<LaneStep> &steps, const EngineOptions &options)
      : steps(steps), options(options) {
    // Measured with all ranks at it.
    handlingShares[Processor] = std::min(1.0, options.ranksPerCore);
  }

  LaneTimes run();

private:
  /// Gives the lane of kernels its next steps until it has one to do, or waits.
  void advance();
  void start(const LaneStep &step);
  /// Gives the lane of kernels what a start or wait does beside the transfer.
  void handle(double seconds) {
    handledSince = now;
    kernel = Job{seconds, &handlingShares};
    isHandling = true;
  }
  /// The host has yet to issue what is next: a device has nothing to do, and a
  /// host that computes issues nothing meanwhile.
  bool isBehind() const {
    return isIssuing && options.ranksPerCore == 0 && issued > now;
  }
  /// Ends what is done and begins what is next in each lane.
  void turnLanes();
  double speedOf(const Job &job, const Shares &wanted, bool isKernel) const;
  /// To the next moment at which something ends.
  void elapse();
  void spendKernel(double span, double speed);

  const std::vector<LaneStep> &steps;
  const EngineOptions options;
  LaneTimes times;
  double now = 0;
  double issued = 0; ///< when the host has issued all so far
  size_t next = 0;
  bool isIssuing = false;    ///< that step is in `issued`, but was not given
  std::optional<Job> kernel; ///< or what a start or wait does
  bool isHandling = false;   ///< the latter
  bool isPrepared = false;   ///< the next start's handling is done
  std::optional<uint32_t>
      finishing; ///< a transfer that came, whose wait goes on
  Shares handlingShares{};
  double handledSince = 0;
  double met = 0; ///< when the last wait for other ranks was over
  std::optional<uint32_t> waiting;                 ///< a transfer
  std::vector<Job> jobs;                           ///< of transfers
  std::vector<bool> done;                          ///< transfers
  std::array<std::vector<uint32_t>, kLanes> lanes; ///< transfers
  std::array<size_t, kLanes> fronts{}; ///< the active one of each lane
};

} // namespace

void Engine::start(const LaneStep &step) {
  uint32_t number = step.transfer;
  if (number >= jobs.size()) {
    jobs.resize(number + 1);
    done.resize(number + 1);
    times.transfers.resize(number + 1, {0, kNever, kNever, kNever, 0});
  }
  times.transfers[number].given = now;
  if (step.handling > 0)
    times.transfers[number].starting = now - handledSince;
  jobs[number] = {step.seconds, &step.shares};
  if (step.beside > 0 && options.ranksPerCore > 0) {
    jobs[number].besideSpeed = step.seconds / step.beside;
    jobs[number].takes = step.lost / step.beside;
  }
  lanes[step.lane].push_back(number);
}

void Engine::advance() {
  while (!kernel && !waiting) {
    if (finishing) {
      times.transfers[*finishing].end = now;
      finishing.reset();
      if (steps[next - 1].meets)
        met = now;
    }
    if (next == steps.size())
      return;
    const LaneStep &step = steps[next];
    if (step.kind == LaneStep::wait) {
      TransferTimes &transfer = times.transfers[step.transfer];
      transfer.asked = std::min(transfer.asked, now);
      if (!done[step.transfer]) {
        waiting = step.transfer;
        continue;
      }
      ++next;
      double handling =
          step.handling + (step.meets ? options.skew.within(now - met) : 0);
      if (handling > 0) {
        handle(handling);
        finishing = step.transfer;
      } else if (step.meets) {
        met = now;
      }
      continue;
    }
    if (step.kind == LaneStep::start && step.handling > 0 && !isPrepared) {
      isPrepared = true;
      handle(step.handling);
      continue;
    }
    if (!isIssuing)
      issued += options.issue;
    isIssuing = true;
    if (isBehind())
      return;
    isIssuing = false;
    ++next;
    if (step.kind == LaneStep::start) {
      isPrepared = false;
      start(step);
      turnLanes();
      continue;
    }
    double seconds = step.seconds;
    if (options.ranksPerCore > 0)
      seconds += options.issue;
    kernel = Job{seconds, &step.shares};
    times.kernels.push_back({now, now});
  }
}

void Engine::turnLanes() {
  for (size_t i = 0; i < kLanes; ++i)
    while (fronts[i] < lanes[i].size()) {
      uint32_t number = lanes[i][fronts[i]];
      TransferTimes &transfer = times.transfers[number];
      transfer.begin = std::min(transfer.begin, now);
      if (jobs[number].left > 0)
        break;
      transfer.end = now;
      done[number] = true;
      if (waiting == number)
        waiting.reset();
      ++fronts[i];
    }
}

double Engine::speedOf(const Job &job, const Shares &wanted,
                       bool isKernel) const {
  bool isBeside = !isKernel && kernel && job.besideSpeed > 0;
  double speed = isBeside ? job.besideSpeed : 1;
  for (size_t resource = 0; resource < kResources; ++resource) {
    if ((*job.shares)[resource] == 0 || wanted[resource] <= 1)
      continue;
    if (isBeside && resource == Processor)
      continue;
    bool isApart = resource == Processor && options.ranksPerCore == 0;
    if (!isApart)
      speed = std::min(speed, 1 / wanted[resource]);
    else if (isKernel)
      speed = std::min(speed, std::max(kLeastSpeed, 2 - wanted[resource]));
  }
  return speed;
}

void Engine::elapse() {
  Shares wanted{};
  double taken = 0; // of the kernels' speed
  auto want = [&](const Job &job) {
    bool isBeside = kernel && job.besideSpeed > 0;
    for (size_t resource = isBeside ? Memory : Processor; resource < kResources;
         ++resource)
      wanted[resource] += (*job.shares)[resource];
    taken += isBeside ? job.takes : 0;
  };
  auto active = [&](size_t lane) -> Job * {
    return fronts[lane] < lanes[lane].size() ? &jobs[lanes[lane][fronts[lane]]]
                                             : nullptr;
  };
  if (kernel)
    want(*kernel);
  for (size_t i = 0; i < kLanes; ++i)
    if (const Job *job = active(i))
      want(*job);
  double span = kNever, kernelSpeed = 1;
  std::array<double, kLanes> speeds{};
  if (kernel) {
    kernelSpeed = speedOf(*kernel, wanted, /*isKernel=*/true) *
                  std::max(kLeastSpeed, 1 - taken);
    span = kernel->left / kernelSpeed;
  }
  for (size_t i = 0; i < kLanes; ++i)
    if (const Job *job = active(i)) {
      speeds[i] = speedOf(*job, wanted, /*isKernel=*/false);
      span = std::min(span, job->left / speeds[i]);
    }
  if (isBehind()) {
    bool isFirst = issued - now <= span;
    span = std::min(span, issued - now);
    times.idle += span;
    now = isFirst ? issued : now + span;
  } else {
    now += span;
  }
  spendKernel(span, kernelSpeed);
  for (size_t i = 0; i < kLanes; ++i)
    if (Job *job = active(i))
      job->spend(span, speeds[i]);
}

/// The kernel ran for `span`, or was waited for.
void Engine::spendKernel(double span, double speed) {
  if (kernel) {
    (isHandling ? times.exposed : times.compute) += span;
    kernel->spend(span, speed);
    if (kernel->left == 0) {
      if (!isHandling)
        times.kernels.back().end = now;
      isHandling = false;
      kernel.reset();
    }
  } else if (waiting) {
    times.exposed += span;
  }
}

LaneTimes Engine::run() {
  for (;;) {
    turnLanes();
    advance();
    if (!kernel && waiting && done[*waiting])
      continue;
    bool isActive = kernel || isBehind();
    for (size_t i = 0; i < kLanes; ++i)
      isActive |= fronts[i] < lanes[i].size();
    if (!isActive)
      break;
    elapse();
  }
  times.seconds = now;
  return std::move(times);
}

LaneTimes fsdp::runLanes(const std::vector<LaneStep> &steps,
                         const EngineOptions &options) {
  return Engine(steps, options).run();
}

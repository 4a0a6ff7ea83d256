//===- DryRun.cpp - What a run will need, on one machine ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Instructions.h"
#include "plan/Programs.h"
#include "plan/Target.h"
#include "plan/Worlds.h"
#include "runtime/comm/Counted.h"
#include "runtime/exec/Device.h"
#include "runtime/session/Devices.h"
#include "runtime/session/Inputs.h"
#include "runtime/train/Progress.h"
#include "runtime/train/Train.h"
#include "support/Format.h"
#include "support/NaturalOrder.h"

#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unistd.h>

using namespace fsdp;

namespace {

/// By kind, then by bucket as people count.
struct TrafficOrder {
  bool operator()(const std::pair<std::string, std::string> &a,
                  const std::pair<std::string, std::string> &b) const {
    return a.first != b.first ? a.first < b.first
                              : isNaturallyLess(a.second, b.second);
  }
};

using TrafficByBucket =
    std::map<std::pair<std::string, std::string>, Traffic, TrafficOrder>;

/// Per kind and bucket.
TrafficByBucket countTraffic(const plan::PlanT &plan,
                             const plan::ProgramT &program) {
  TrafficByBucket traffic;
  for (const auto &instruction : program.instructions)
    if (const plan::TransferT *start = transferOf(*instruction)) {
      Traffic &entry = traffic[{getName(start->kind), start->bucket}];
      ++entry.calls;
      entry.bytes += bytesOf(*start, plan, program);
    }
  return traffic;
}

void printMemory(const plan::PlanT &plan) {
  const plan::MemoryT &memory = *plan.memory;
  std::printf("memory a rank\n");
  auto line = [](const char *name, uint64_t bytes) {
    std::printf("  %-22s %12s\n", name, formatBytes(bytes).c_str());
  };
  line("peak of all tensors", memory.peak);
  line("  parameters", memory.params);
  line("  gradients", memory.grads);
  line("  optimizer", memory.optimizer);
  line("  gathered", memory.gathered);
  line("  activations", memory.activations);
  line("  buffers", memory.buffers);
  line("  inputs", memory.inputs);
  if (plan.host) {
    line("on the host beside it", plan.host->peak);
    line("  parameters", plan.host->params);
    line("  gradients", plan.host->grads);
    line("  optimizer", plan.host->optimizer);
    line("  activations", plan.host->activations);
  }
  if (std::optional<uint64_t> bound = getScratchBound(plan))
    line("scratch, at most", *bound);
  else
    std::printf("  %-22s %12s\n", "scratch",
                describeScratch(plan, formatBytes).c_str());
}

/// What the machine can give without swapping; all that it has where Linux does
/// not tell.
uint64_t availableMemory() {
  std::ifstream stream("/proc/meminfo");
  for (std::string name; stream >> name;) {
    uint64_t kilobytes = 0;
    if (name == "MemAvailable:" && stream >> kilobytes)
      return kilobytes * 1024;
  }
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

/// Of the one plan that `launchOptions.world` names.
void playRank(const LaunchOptions &launchOptions, const PlanFile &file) {
  const plan::PlanT &plan = file.plan();
  uint64_t ranks = getWorldSize(plan);
  std::printf("%s for %llu ranks, fingerprint %s\n",
              launchOptions.artifact.c_str(),
              static_cast<unsigned long long>(ranks), file.hash().c_str());
  printMemory(plan);
  if (ranks > 1 && !isForHost(plan))
    std::printf("NCCL's own buffers come beside that: a run counts them as "
                "staging\n");
  for (const auto &program : plan.programs) {
    // The middle one of a step's parts runs for all but two micro-batches.
    uint64_t runs = getEntry(*program) == kStepParts[1]
                        ? plan.training->gradient_accumulation_steps - 2
                        : 1;
    std::printf("collectives of %s (%s)%s\n", program->name.c_str(),
                describeInputs(plan, *program).c_str(),
                runs == 1
                    ? ""
                    : (", " + std::to_string(runs) + " times a step").c_str());
    for (const auto &[key, traffic] : countTraffic(plan, *program))
      std::printf("  %-15s %-30s %3llu x %12s\n", key.first.c_str(),
                  key.second.c_str(),
                  static_cast<unsigned long long>(traffic.calls),
                  formatBytes(traffic.bytes / traffic.calls).c_str());
  }
  uint64_t needed = peakOf(plan, plan::MemorySpace::device) +
                    peakOf(plan, plan::MemorySpace::host) +
                    plan.memory->scratch_bound;
  // A GPU has memory of its own.
  if (isForHost(plan) && needed > availableMemory()) {
    std::printf("rank 0 was not executed: it needs %s, this machine has %s "
                "free\n",
                formatBytes(needed).c_str(),
                formatBytes(availableMemory()).c_str());
    return;
  }
  LaunchOptions options = launchOptions;
  options.backend = "fake";
  uint64_t steps = options.session.steps.value_or(0);
  launch(options, [&](Session &session) {
    for (uint64_t i = 0; i < steps; ++i)
      session.step();
    MemoryUse memory = session.memory();
    std::printf("checked: artifact, LibTorch, operators, model file, inputs\n");
    std::printf("rank 0 executed %llu steps without the others' data: %s "
                "tensors, %s scratch\n",
                static_cast<unsigned long long>(steps),
                formatBytes(memory.arena).c_str(),
                formatBytes(memory.scratch).c_str());
    if (isForHost(session.plan()))
      std::printf(
          "with --backend=gloo a rank holds %s in all, %s of it staging for "
          "messages and batches\n",
          formatBytes(memory.arena + memory.scratch + memory.staging).c_str(),
          formatBytes(memory.staging).c_str());
  });
}

} // namespace

void fsdp::dryRun(const LaunchOptions &launchOptions) {
  WorldPlans plans = readPlans(launchOptions);
  LaunchOptions options = launchOptions;
  std::vector<uint64_t> worlds = plans.worlds();
  if (options.world)
    worlds = {*options.world};
  for (uint64_t world : worlds) {
    options.world = world;
    playRank(options, plans.take(world));
  }
}

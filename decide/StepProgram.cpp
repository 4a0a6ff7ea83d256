//===- StepProgram.cpp - What a program's decisions change ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "decide/StepProgram.h"

#include "plan/Activities.h"
#include "plan/Lifetimes.h"
#include "plan/Shape.h"
#include "simulate/InstructionCost.h"
#include "simulate/Simulator.h"

#include <algorithm>
#include <map>
#include <optional>

using namespace fsdp;

StepProgram::StepProgram(const plan::PlanT &plan, const plan::ProgramT &program,
                         const Cluster &cluster, uint32_t runs,
                         const std::vector<std::string> &buckets,
                         const std::vector<std::string> &paths)
    : runs(runs), plan(plan), program(program), collectives(cluster),
      options(getEngineOptions(plan, cluster)),
      size(program.instructions.size()), bucketCount(buckets.size()),
      blockCount(paths.size()) {
  InstructionCosts costs(plan, cluster, options);
  std::vector<uint32_t> byFuture(program.futures, kNone);
  uint32_t transfers = 0;
  for (const auto &instruction : program.instructions) {
    InstructionCost cost = costs.cost(program, *instruction);
    if (cost.step.kind == LaneStep::start)
      byFuture[cost.future] = transfers++;
    if (cost.step.kind != LaneStep::kernel)
      cost.step.transfer = byFuture[cost.future];
    steps.push_back(cost.step);
    kinds.push_back(cost.work.kind);
  }
  findBorder();
  findBlocks(paths);
  findStorages();
  findGathers(buckets);
  saved.resize(blockCount);
  for (uint32_t i = 0; i < storages.size(); ++i)
    if (storages[i].isSaved())
      saved[size_t(storages[i].block)].push_back(i);
  readers.resize(bucketCount);
  for (bool selective : {false, true})
    for (size_t block = 0; block < blockCount; ++block) {
      again[selective].push_back(recompute(int(block), selective));
      // What is selected reads no more than all.
      if (!selective)
        for (int bucket : again[selective].back().buckets)
          if (bucket >= 0)
            readers[size_t(bucket)].push_back(int(block));
    }
}

/// Buffers, and sums of outputs over micro-batches.
static bool isOfForward(const plan::StateT &state) {
  return state.role == plan::Role::buffer || state.role == plan::Role::scalar;
}

/// Forward is what the outputs need but for the norm, as ForwardSlice finds it.
/// Outputs share a packed transfer with the norm, which alone needs reductions.
void StepProgram::findBorder() {
  std::vector<bool> isReduced(program.values.size(), false); // by root
  std::map<size_t, std::vector<uint32_t>> unreduced; // by packing: roots
  std::vector<bool> isBehind(size, false); // reductions, by instruction
  for (size_t i = 0; i < size; ++i) {
    const plan::InstructionT &instruction = *program.instructions[i];
    if (const plan::PackTensorsT *pack = instruction.body.AsPackTensors())
      for (uint32_t input : pack->inputs)
        if (uint32_t root = rootOf(program, input); !isReduced[root])
          unreduced[i].push_back(root);
    const plan::TransferT *start = transferOf(instruction);
    // Parts of a gradient are exchanged to be added up.
    bool reduces = start && (isReduction(start->kind) ||
                             start->purpose == plan::Purpose::gradient);
    for (uint32_t value : valuesOf(instruction, reads))
      reduces |= isReduced[rootOf(program, value)];
    for (uint32_t value : valuesOf(instruction, writes))
      isReduced[rootOf(program, value)] = reduces;
    isBehind[i] = reduces;
  }
  std::set<uint32_t> needed;
  for (const auto &result : program.results)
    if ((!result->output.empty() && result->output != "grad_norm") ||
        (result->state >= 0 &&
         isOfForward(*plan.states[size_t(result->state)])))
      needed.insert(rootOf(program, result->value));
  for (size_t i = size; i-- > 0;) {
    const plan::InstructionT &instruction = *program.instructions[i];
    bool isNeeded = false;
    for (uint32_t value : valuesOf(instruction, writes))
      isNeeded |= needed.contains(rootOf(program, value));
    if (!isNeeded)
      continue;
    if (instruction.body.AsPackTensors()) {
      needed.insert(unreduced[i].begin(), unreduced[i].end());
      continue;
    }
    // The metrics' transfer stands at the end of the step.
    if (const std::optional<Flight> flight = flightOf(instruction)) {
      for (size_t k = 0; k < flight->outputs.size(); ++k)
        if (needed.contains(rootOf(program, flight->outputs[k])))
          needed.insert(rootOf(program, flight->inputs[k]));
      continue;
    }
    // What is done to the loss alone may stand anywhere behind it.
    bool isOfNumbers =
        std::ranges::all_of(valuesOf(instruction), [&](uint32_t value) {
          return checkedElements(program.values[value]->shape) == 1;
        });
    if (kinds[i] != WorkKind::none && !isBehind[i] && !isOfNumbers)
      border = std::max(border, static_cast<uint32_t>(i));
    for (uint32_t value : valuesOf(instruction, reads))
      needed.insert(rootOf(program, value));
  }
}

void StepProgram::findBlocks(const std::vector<std::string> &paths) {
  std::vector<Activity> activities = describeActivities(plan, program);
  std::map<std::string, int> known;
  for (size_t i = 0; i < paths.size(); ++i)
    known[paths[i]] = int(i);
  for (const Activity &activity : activities) {
    int block = -1;
    for (std::string path = activity.module; !path.empty();) {
      if (auto found = known.find(path); found != known.end()) {
        block = found->second;
        break;
      }
      size_t dot = path.rfind('.');
      path.resize(dot == std::string::npos ? 0 : dot);
    }
    blocks.push_back(block);
  }
}

void StepProgram::findStorages() {
  byRoot.assign(program.values.size(), kNone);
  for (const Lifetime &lifetime : findLifetimes(program)) {
    const plan::ValueT &value = *program.values[lifetime.value];
    if (value.memory != plan::MemorySpace::device)
      continue;
    byRoot[lifetime.value] = static_cast<uint32_t>(storages.size());
    Storage storage;
    storage.bytes = value.bytes;
    storage.made = storage.lastForward = lifetime.made;
    storage.last = lifetime.last;
    if (!lifetime.isInput && lifetime.made <= border &&
        kinds[lifetime.made] != WorkKind::none)
      storage.block = blocks[lifetime.made];
    storages.push_back(storage);
  }
  for (uint32_t i = 0; i < size; ++i) {
    const plan::InstructionT &instruction = *program.instructions[i];
    if (instruction.body.type == plan::Body::Free)
      continue;
    Operands operands;
    visitBody(instruction, [&](const auto &op) { listOperands(op, operands); });
    for (auto [access, value] : operands) {
      uint32_t index = storageOf(static_cast<uint32_t>(value));
      if (index == kNone)
        continue;
      Storage &storage = storages[index];
      if (i <= border)
        storage.lastForward = std::max(storage.lastForward, i);
      else if (reads(access))
        storage.firstBackward = std::min(storage.firstBackward, i);
    }
  }
}

void StepProgram::findGathers(const std::vector<std::string> &buckets) {
  gatherAt.assign(size, -1);
  std::map<uint32_t, int> byTransfer;
  std::map<std::string, int> forward; // by name of the transfer
  auto findBucket = [&](const std::string &name) {
    auto found = std::ranges::find(buckets, name);
    // Members of a second type have a transfer of their own, "bucket/type".
    if (found == buckets.end())
      found = std::ranges::find(buckets, name.substr(0, name.rfind('/')));
    return found == buckets.end() ? -1 : int(found - buckets.begin());
  };
  for (uint32_t i = 0; i < size; ++i) {
    const plan::InstructionT &instruction = *program.instructions[i];
    if (const plan::TransferT *op = gatherOf(instruction)) {
      Gather gather;
      gather.start = gather.wait = i;
      gather.bucket = findBucket(op->bucket);
      auto number = int(gathers.size());
      for (uint32_t output : op->outputs)
        if (uint32_t index = storageOf(output); index != kNone) {
          storages[index].gather = number;
          gather.storages.push_back(index);
          gather.bytes += storages[index].bytes;
        }
      byTransfer[steps[i].transfer] = number;
      gatherAt[i] = number;
      gathers.push_back(std::move(gather));
    } else if (steps[i].kind == LaneStep::wait) {
      auto found = byTransfer.find(steps[i].transfer);
      if (found == byTransfer.end())
        continue;
      Gather &gather = gathers[size_t(found->second)];
      gather.wait = i;
      gather.isBackward = i > border;
      gatherAt[i] = found->second;
      const std::string &name =
          gatherOf(*program.instructions[gather.start])->bucket;
      auto [first, isNew] = forward.try_emplace(name, found->second);
      if (isNew || !gather.isBackward ||
          gathers[size_t(first->second)].isBackward)
        continue;
      gather.twin = first->second;
      gathers[size_t(first->second)].twin = found->second;
    }
  }
}

StepProgram::Makers StepProgram::findMakers(int block, bool selective) const {
  Makers result;
  auto &[makers, kept] = result;
  auto isExpensive = [&](uint32_t i) {
    return kinds[i] == WorkKind::matmul || kinds[i] == WorkKind::attention ||
           kinds[i] == WorkKind::convolution;
  };
  for (uint32_t i = 0; i <= border && i < size; ++i) {
    bool isInside = blocks[i] == block && kinds[i] != WorkKind::none;
    const plan::InstructionT &instruction = *program.instructions[i];
    if (instruction.body.type == plan::Body::Free)
      continue;
    if (isInside) {
      for (uint32_t value : valuesOf(instruction, writes))
        if (uint32_t index = storageOf(value); index != kNone) {
          if (storages[index].block == block)
            makers[index].push_back(i);
          if (selective && isExpensive(i))
            kept.insert(index);
        }
    } else if (blocks[i] != block) {
      for (uint32_t value : valuesOf(instruction, reads))
        if (uint32_t index = storageOf(value);
            index != kNone && storages[index].block == block)
          kept.insert(index);
    }
  }
  return result;
}

Repetition StepProgram::recompute(int block, bool selective) const {
  Repetition result;
  const auto [makers, kept] = findMakers(block, selective);
  std::vector<uint32_t> worklist;
  std::set<uint32_t> needed; // storages
  for (const auto &[index, by] : makers)
    if (const Storage &storage = storages[index];
        storage.isSaved() && !kept.contains(index)) {
      result.dropped.push_back(index);
      result.before = std::min(result.before, storage.firstBackward);
      worklist.push_back(index);
      needed.insert(index);
    }
  std::set<uint32_t> kernels;
  while (!worklist.empty()) {
    uint32_t index = worklist.back();
    worklist.pop_back();
    for (uint32_t i : makers.at(index)) {
      if (!kernels.insert(i).second)
        continue;
      for (uint32_t value : valuesOf(*program.instructions[i], reads)) {
        uint32_t source = storageOf(value);
        if (source == kNone)
          continue;
        if (int gather = storages[source].gather; gather >= 0)
          result.buckets.insert(gathers[size_t(gather)].bucket);
        if (makers.contains(source) && !kept.contains(source) &&
            needed.insert(source).second)
          worklist.push_back(source);
      }
    }
  }
  result.kernels.assign(kernels.begin(), kernels.end());
  // What it makes and backward does not read.
  std::map<uint32_t, std::pair<uint32_t, uint32_t>> spans;
  for (uint32_t k = 0; k < result.kernels.size(); ++k)
    for (uint32_t value : valuesOf(*program.instructions[result.kernels[k]]))
      if (uint32_t index = storageOf(value);
          index != kNone && makers.contains(index) && !kept.contains(index) &&
          !storages[index].isSaved()) {
        auto [it, isNew] = spans.try_emplace(index, k, k);
        it->second.second = k;
      }
  for (const auto &[index, span] : spans)
    result.temporary.emplace_back(index, span.first, span.second);
  return result;
}

std::vector<uint32_t> StepProgram::findPrefetch() const {
  std::vector<size_t> order(gathers.size());
  for (size_t g = 0; g < order.size(); ++g)
    order[g] = g;
  std::ranges::stable_sort(order, {},
                           [&](size_t g) { return gathers[g].wait; });
  std::vector<uint32_t> kernels{0}; // in front of each instruction
  for (uint32_t i = 0; i < size; ++i)
    kernels.push_back(kernels.back() + (kinds[i] != WorkKind::none));
  std::vector<uint32_t> result(gathers.size());
  for (size_t k = 0; k < order.size(); ++k) {
    const Gather &gather = gathers[order[k]];
    for (size_t i = k; i-- > 0;) {
      const Gather &other = gathers[order[i]];
      if (other.isBackward != gather.isBackward ||
          kernels[other.wait] < kernels[gather.start])
        break;
      ++result[order[k]];
    }
  }
  return result;
}

void StepProgram::addFacts(std::vector<BucketFacts> &bucketFacts,
                           std::vector<BlockFacts> &blockFacts) const {
  for (uint32_t i = 0; i <= border && i < size; ++i)
    if (blocks[i] >= 0 && kinds[i] != WorkKind::none)
      blockFacts[size_t(blocks[i])].forward += steps[i].seconds;
  std::vector<uint32_t> prefetch = findPrefetch();
  for (size_t g = 0; g < gathers.size(); ++g)
    if (const Gather &gather = gathers[g]; gather.bucket >= 0) {
      BucketFacts &each = bucketFacts[size_t(gather.bucket)];
      each.gathered = std::max(each.gathered, gather.bytes);
      each.transfer = std::max(each.transfer, steps[gather.start].seconds);
      each.prefetch = std::max(each.prefetch, prefetch[g]);
      each.isRegathered |= gather.isBackward && gather.twin >= 0;
    }
  for (size_t block = 0; block < blockCount; ++block) {
    BlockFacts &each = blockFacts[block];
    for (uint32_t index : saved[block])
      each.saved += storages[index].bytes;
    for (uint32_t index : again[0][block].dropped)
      each.dropped += storages[index].bytes;
    for (uint32_t index : again[1][block].dropped)
      each.selected += storages[index].bytes;
  }
}

//===- StepModel.cpp - A step whose decisions can be changed --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "decide/StepModel.h"

#include "plan/Activities.h"
#include "plan/Instructions.h"
#include "plan/Lifetimes.h"
#include "plan/Programs.h"
#include "plan/Shape.h"
#include "simulate/CollectiveModel.h"
#include "simulate/ComputeModel.h"
#include "simulate/Engine.h"
#include "simulate/Simulator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>

using namespace fsdp;

/// Below this, tensors do not leave the device (OffloadActivations).
static constexpr uint64_t kLeastOffloaded = 1024;

bool BucketFacts::isLike(const BucketFacts &other) const {
  return isBlock == other.isBlock && isRegathered == other.isRegathered &&
         gathered == other.gathered && saved == other.saved &&
         dropped == other.dropped &&
         std::abs(forward - other.forward) <= 1e-9 + 1e-6 * forward;
}

namespace {

constexpr uint32_t kNone = UINT32_MAX;

/// A tensor in the device's region; instructions by number.
struct Storage {
  uint64_t bytes = 0;
  uint32_t made = 0, last = 0;    ///< that need it
  uint32_t lastForward = 0;       ///< that names it
  uint32_t firstBackward = kNone; ///< that reads it
  int block = -1;                 ///< whose forward makes it
  int gather = -1;                ///< that brings it

  bool isSaved() const {
    return block >= 0 && gather < 0 && firstBackward != kNone;
  }
};

struct Gather {
  uint32_t start = 0, wait = 0;
  int bucket = -1;
  bool isBackward = false;
  int twin = -1;      ///< of a backward one: forward's of the same bucket
  uint64_t bytes = 0; ///< that it makes
  TransferCost cost;
  std::vector<uint32_t> storages;
};

/// A block's second computation under one policy.
struct Again {
  std::vector<uint32_t> kernels; ///< in order
  uint32_t before = kNone;       ///< instruction of backward
  std::vector<uint32_t> dropped; ///< storages that are made again
  /// Others that it makes, with the first and last of `kernels` that name them.
  std::vector<std::tuple<uint32_t, uint32_t, uint32_t>> temporary;
  std::set<int> buckets; ///< that it reads
};

} // namespace

//===----------------------------------------------------------------------===//
// One program
//===----------------------------------------------------------------------===//

class StepModel::Program {
public:
  Program(const plan::PlanT &plan, const plan::ProgramT &program,
          const Cluster &cluster, uint32_t runs,
          const std::vector<std::string> &buckets);

  void addFacts(std::vector<BucketFacts> &facts) const;
  Outcome evaluate(const Decisions &decisions) const;

  const uint32_t runs;

private:
  struct Schedule;

  void findBorder();
  void findBlocks(const std::vector<std::string> &buckets);
  void findStorages();
  void findGathers(const std::vector<std::string> &buckets);
  Again recompute(int block, bool selective) const;
  uint32_t storageOf(uint32_t value) const {
    return byRoot[rootOf(program, value)];
  }

  const plan::PlanT &plan;
  const plan::ProgramT &program;
  CollectiveModel collectives;
  EngineOptions options;
  size_t size;                  ///< instructions
  std::vector<LaneStep> steps;  ///< by instruction
  std::vector<WorkKind> kinds;  ///< by instruction
  std::vector<int> blocks;      ///< by instruction
  uint32_t border = 0;          ///< forward's last instruction
  std::vector<uint32_t> byRoot; ///< storages, by value
  std::vector<Storage> storages;
  std::vector<Gather> gathers;
  std::vector<int> gatherAt;               ///< by instruction: starts and waits
  std::array<std::vector<Again>, 2> again; ///< full, selective; by bucket
  size_t bucketCount = 0;
};

StepModel::Program::Program(const plan::PlanT &plan,
                            const plan::ProgramT &program,
                            const Cluster &cluster, uint32_t runs,
                            const std::vector<std::string> &buckets)
    : runs(runs), plan(plan), program(program), collectives(cluster),
      options(getEngineOptions(plan, cluster)),
      size(program.instructions.size()), bucketCount(buckets.size()) {
  ComputeModel compute(cluster);
  double share = options.ranksPerCore > 0 ? options.ranksPerCore : 1;
  std::vector<uint32_t> byFuture(program.futures, kNone);
  uint32_t transfers = 0;
  for (const auto &instruction : program.instructions) {
    LaneStep step;
    WorkKind kind = WorkKind::none;
    if (const plan::WaitT *wait = instruction->body.AsWait()) {
      step.kind = LaneStep::wait;
      step.transfer = byFuture[wait->future];
    } else if (std::optional<TransferStart> start = startOf(*instruction)) {
      TransferCost cost = collectives.collective(
          start->kind, double(start->bytes(plan, program)),
          *plan.groups[start->group]);
      step = {LaneStep::start,
              uint8_t(start->stream),
              transfers,
              cost.seconds,
              {cost.processor * share, cost.memory, cost.link, cost.network}};
      byFuture[start->future] = transfers++;
    } else if (const plan::CopyAcrossT *copy =
                   instruction->body.AsCopyAcross()) {
      uint64_t bytes = 0;
      for (uint32_t output : copy->outputs)
        bytes += program.values[output]->bytes;
      TransferCost cost = collectives.copy(copy->to == plan::MemorySpace::host,
                                           double(bytes), copy->outputs.size());
      step = {LaneStep::start,
              uint8_t(copy->stream),
              transfers,
              cost.seconds,
              {cost.processor * share, cost.memory, 0, 0}};
      byFuture[copy->future] = transfers++;
    } else {
      Work work = estimateWork(plan, program, *instruction);
      kind = work.kind;
      step.seconds = compute.seconds(work);
      step.shares = {share, compute.memoryShare(work), 0, 0};
    }
    steps.push_back(step);
    kinds.push_back(kind);
  }
  findBorder();
  findBlocks(buckets);
  findStorages();
  findGathers(buckets);
  for (bool selective : {false, true})
    for (size_t bucket = 0; bucket < bucketCount; ++bucket)
      again[selective].push_back(recompute(int(bucket), selective));
}

/// Buffers, and sums of outputs over micro-batches.
static bool isOfForward(const plan::StateT &state) {
  return state.role == plan::Role::buffer || state.role == plan::Role::scalar;
}

/// Forward is what the outputs need but for the norm, as ForwardSlice finds it.
/// Outputs share a packed transfer with the norm, which alone needs reductions.
void StepModel::Program::findBorder() {
  std::vector<bool> isReduced(program.values.size(), false); // by root
  std::map<size_t, std::vector<uint32_t>> unreduced; // by packing: roots
  std::vector<bool> isBehind(size, false); // reductions, by instruction
  for (size_t i = 0; i < size; ++i) {
    const plan::InstructionT &instruction = *program.instructions[i];
    if (const plan::PackTensorsT *pack = instruction.body.AsPackTensors())
      for (uint32_t input : pack->inputs)
        if (uint32_t root = rootOf(program, input); !isReduced[root])
          unreduced[i].push_back(root);
    std::optional<TransferStart> start = startOf(instruction);
    bool reduces = start && start->kind != CollectiveKind::allGather;
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

void StepModel::Program::findBlocks(const std::vector<std::string> &buckets) {
  std::vector<Activity> activities = describeActivities(plan, program);
  std::map<std::string, int> known;
  for (size_t i = 0; i < buckets.size(); ++i)
    known[buckets[i]] = int(i);
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

void StepModel::Program::findStorages() {
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

void StepModel::Program::findGathers(const std::vector<std::string> &buckets) {
  gatherAt.assign(size, -1);
  std::map<uint32_t, int> byTransfer;
  std::vector<int> forward(buckets.size(), -1);
  for (uint32_t i = 0; i < size; ++i) {
    const plan::InstructionT &instruction = *program.instructions[i];
    if (const plan::AllGatherT *op = instruction.body.AsAllGather()) {
      auto found = std::ranges::find(buckets, op->bucket);
      Gather gather;
      gather.start = gather.wait = i;
      gather.bucket =
          found == buckets.end() ? -1 : int(found - buckets.begin());
      gather.cost = collectives.collective(
          CollectiveKind::allGather, double(startOf(*op).bytes(plan, program)),
          *plan.groups[op->group]);
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
      if (gather.bucket < 0)
        continue;
      int &first = forward[size_t(gather.bucket)];
      if (gather.isBackward)
        gather.twin = first;
      else
        first = found->second;
    }
  }
}

Again StepModel::Program::recompute(int block, bool selective) const {
  Again result;
  auto isExpensive = [&](uint32_t i) {
    return kinds[i] == WorkKind::matmul || kinds[i] == WorkKind::attention ||
           kinds[i] == WorkKind::convolution;
  };
  // What the rest of forward reads is there anyway.
  std::set<uint32_t> kept;
  std::map<uint32_t, std::vector<uint32_t>> makers; // by storage
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

void StepModel::Program::addFacts(std::vector<BucketFacts> &facts) const {
  for (uint32_t i = 0; i <= border && i < size; ++i)
    if (blocks[i] >= 0 && kinds[i] != WorkKind::none) {
      facts[size_t(blocks[i])].isBlock = true;
      facts[size_t(blocks[i])].forward += steps[i].seconds;
    }
  for (const Gather &gather : gathers)
    if (gather.bucket >= 0) {
      BucketFacts &each = facts[size_t(gather.bucket)];
      each.gathered = std::max(each.gathered, gather.bytes);
      each.isRegathered |= gather.twin >= 0;
    }
  for (const Storage &storage : storages)
    if (storage.isSaved())
      facts[size_t(storage.block)].saved += storage.bytes;
  for (size_t bucket = 0; bucket < bucketCount; ++bucket)
    for (uint32_t index : again[0][bucket].dropped)
      facts[bucket].dropped += storages[index].bytes;
}

//===----------------------------------------------------------------------===//
// Another schedule
//===----------------------------------------------------------------------===//

/// The order of one evaluation. A slot is a place in front of an instruction or
/// of a kernel that is run again.
struct StepModel::Program::Schedule {
  std::vector<uint32_t> order;   ///< instructions; those of `again` twice
  std::vector<uint32_t> places;  ///< by instruction: its own in `order`
  std::vector<uint32_t> againAt; ///< by bucket: where that begins
  std::vector<int64_t> change;   ///< of bytes in use, by place
  /// In front of a place: gathers that start, and that are waited for.
  std::vector<std::pair<uint32_t, size_t>> starts, waits;

  void live(uint64_t bytes, size_t from, size_t to) {
    change[from] += int64_t(bytes);
    if (to + 1 < change.size())
      change[to + 1] -= int64_t(bytes);
  }
};

Outcome StepModel::Program::evaluate(const Decisions &decisions) const {
  const std::vector<Again> &repeated = again[decisions.selective];
  auto isAgain = [&](int block) {
    return block >= 0 && decisions.recomputed[size_t(block)] &&
           repeated[size_t(block)].before != kNone;
  };
  std::multimap<uint32_t, size_t> segments; // by instruction: blocks
  for (size_t i = 0; i < bucketCount; ++i)
    if (isAgain(int(i)))
      segments.emplace(repeated[i].before, i);

  Schedule schedule;
  schedule.places.resize(size);
  schedule.againAt.assign(bucketCount, kNone);
  for (uint32_t i = 0; i < size; ++i) {
    for (auto [it, end] = segments.equal_range(i); it != end; ++it) {
      schedule.againAt[it->second] =
          static_cast<uint32_t>(schedule.order.size());
      for (uint32_t kernel : repeated[it->second].kernels)
        schedule.order.push_back(kernel);
    }
    schedule.places[i] = static_cast<uint32_t>(schedule.order.size());
    schedule.order.push_back(i);
  }
  schedule.change.assign(schedule.order.size() + 1, 0);
  const std::vector<uint32_t> &places = schedule.places;

  // Tensors.
  for (const Storage &storage : storages)
    if (storage.gather < 0 && !(storage.isSaved() && isAgain(storage.block)) &&
        !(storage.isSaved() && decisions.offloaded[size_t(storage.block)] &&
          storage.bytes >= kLeastOffloaded))
      schedule.live(storage.bytes, places[storage.made], places[storage.last]);
  for (size_t block = 0; block < bucketCount; ++block) {
    if (!isAgain(int(block)))
      continue;
    const Again &each = repeated[block];
    size_t begin = schedule.againAt[block];
    auto placeOf = [&](uint32_t instruction) {
      return begin +
             size_t(std::ranges::lower_bound(each.kernels, instruction) -
                    each.kernels.begin());
    };
    std::set<uint32_t> dropped(each.dropped.begin(), each.dropped.end());
    for (const Storage &storage : storages) {
      if (!storage.isSaved() || storage.block != int(block))
        continue;
      auto index = static_cast<uint32_t>(&storage - storages.data());
      size_t end = places[storage.last];
      if (!dropped.contains(index)) {
        schedule.live(storage.bytes, places[storage.made], end);
        continue;
      }
      schedule.live(storage.bytes, places[storage.made],
                    places[storage.lastForward]);
      schedule.live(storage.bytes, placeOf(storage.made), end);
    }
    for (auto [index, first, last] : each.temporary)
      schedule.live(storages[index].bytes, begin + first, begin + last);
  }

  // Activations on the host: a block's leave while the next one computes, and
  // come back while the one behind it does.
  struct Copy {
    size_t start, wait;
    bool toHost;
    uint64_t bytes, count;
  };
  std::vector<Copy> copies;
  for (size_t block = 0; block < bucketCount; ++block) {
    if (!decisions.offloaded[block] || isAgain(int(block)))
      continue;
    uint64_t bytes = 0, count = 0;
    uint32_t lastForward = 0, firstBackward = kNone;
    for (const Storage &storage : storages)
      if (storage.isSaved() && storage.block == int(block) &&
          storage.bytes >= kLeastOffloaded) {
        bytes += storage.bytes;
        ++count;
        lastForward = std::max(lastForward, storage.lastForward);
        firstBackward = std::min(firstBackward, storage.firstBackward);
      }
    if (bytes == 0)
      continue;
    auto length = uint32_t(std::ranges::count(blocks, int(block)) / 3);
    size_t gone = places[std::min(lastForward + length, border)];
    uint32_t early = std::max(
        border + 1, firstBackward - std::min(firstBackward, 2 * length));
    size_t back = places[std::min(early, firstBackward)];
    copies.push_back({places[lastForward], gone, true, bytes, count});
    copies.push_back({back, places[firstBackward], false, bytes, count});
    for (const Storage &storage : storages)
      if (storage.isSaved() && storage.block == int(block) &&
          storage.bytes >= kLeastOffloaded) {
        schedule.live(storage.bytes, places[storage.made],
                      std::max<size_t>(gone, places[storage.made]));
        size_t end = places[storage.last];
        schedule.live(storage.bytes, std::min(back, end), end);
      }
  }

  // Gathers, each so many ahead as it is told.
  std::array<std::vector<std::pair<size_t, size_t>>, 2> phases; // use, gather
  for (size_t g = 0; g < gathers.size(); ++g) {
    const Gather &gather = gathers[g];
    bool isKept = gather.bucket >= 0 && gather.twin >= 0 &&
                  decisions.kept[size_t(gather.bucket)];
    if (isKept)
      continue;
    size_t use = places[gather.wait];
    if (gather.isBackward)
      for (size_t block = 0; block < bucketCount; ++block)
        if (isAgain(int(block)) &&
            repeated[block].buckets.contains(gather.bucket))
          use = std::min<size_t>(use, schedule.againAt[block]);
    phases[gather.isBackward].emplace_back(use, g);
  }
  for (size_t phase = 0; phase < 2; ++phase) {
    auto &uses = phases[phase];
    std::ranges::stable_sort(uses, {}, &std::pair<size_t, size_t>::first);
    for (size_t k = 0; k < uses.size(); ++k) {
      auto [use, g] = uses[k];
      size_t first =
          phase == 0 ? 0 : places[std::min<size_t>(border + 1, size - 1)];
      size_t start =
          k < decisions.prefetch ? first : uses[k - decisions.prefetch].first;
      start = std::min(start, use);
      schedule.starts.emplace_back(static_cast<uint32_t>(start), g);
      schedule.waits.emplace_back(static_cast<uint32_t>(use), g);
      const Gather &gather = gathers[g];
      for (uint32_t index : gather.storages) {
        uint32_t last = storages[index].last;
        // Kept until backward has read it.
        for (const Gather &other : gathers)
          if (other.twin == int(g) && gather.bucket >= 0 &&
              decisions.kept[size_t(gather.bucket)])
            for (uint32_t twin : other.storages)
              last = std::max(last, storages[twin].last);
        schedule.live(storages[index].bytes, start, places[last]);
      }
    }
  }
  std::ranges::stable_sort(schedule.starts);
  std::ranges::stable_sort(schedule.waits);
  std::vector<Copy *> copyStarts, copyWaits;
  for (Copy &copy : copies) {
    copyStarts.push_back(&copy);
    copyWaits.push_back(&copy);
  }
  std::ranges::stable_sort(copyStarts, {}, [](Copy *c) { return c->start; });
  std::ranges::stable_sort(copyWaits, {}, [](Copy *c) { return c->wait; });

  // Time.
  std::vector<LaneStep> given;
  given.reserve(schedule.order.size());
  uint32_t transfers = 0;
  std::map<uint32_t, uint32_t> numbers;     // of the plan's, in its order
  std::map<size_t, uint32_t> gatherNumbers; // by gather
  std::map<const Copy *, uint32_t> copyNumbers;
  size_t nextStart = 0, nextWait = 0, nextCopy = 0, nextCopyWait = 0;
  for (size_t place = 0; place < schedule.order.size(); ++place) {
    uint32_t i = schedule.order[place];
    bool isFirst = schedule.places[i] == place;
    for (; nextCopy < copyStarts.size() && copyStarts[nextCopy]->start == place;
         ++nextCopy) {
      const Copy &copy = *copyStarts[nextCopy];
      TransferCost cost =
          collectives.copy(copy.toHost, double(copy.bytes), size_t(copy.count));
      copyNumbers[&copy] = transfers;
      given.push_back(
          {LaneStep::start,
           uint8_t(copy.toHost ? plan::Stream::download : plan::Stream::upload),
           transfers++,
           cost.seconds,
           {0, cost.memory, 0, 0}});
    }
    for (; nextStart < schedule.starts.size() &&
           schedule.starts[nextStart].first == place;
         ++nextStart) {
      size_t g = schedule.starts[nextStart].second;
      LaneStep step = steps[gathers[g].start];
      gatherNumbers[g] = step.transfer = transfers++;
      given.push_back(step);
    }
    for (; nextWait < schedule.waits.size() &&
           schedule.waits[nextWait].first == place;
         ++nextWait)
      given.push_back({LaneStep::wait,
                       0,
                       gatherNumbers.at(schedule.waits[nextWait].second),
                       0,
                       {}});
    for (; nextCopyWait < copyWaits.size() &&
           copyWaits[nextCopyWait]->wait == place;
         ++nextCopyWait)
      if (auto found = copyNumbers.find(copyWaits[nextCopyWait]);
          found != copyNumbers.end())
        given.push_back({LaneStep::wait, 0, found->second, 0, {}});
    if (isFirst && gatherAt[i] >= 0)
      continue;
    LaneStep step = steps[i];
    if (step.kind == LaneStep::kernel) {
      if (kinds[i] != WorkKind::none)
        given.push_back(step);
    } else if (step.kind == LaneStep::start) {
      numbers[step.transfer] = transfers;
      step.transfer = transfers++;
      given.push_back(step);
    } else {
      step.transfer = numbers.at(step.transfer);
      given.push_back(step);
    }
  }
  LaneTimes times = runLanes(given, options);
  Outcome outcome;
  outcome.seconds = times.seconds;
  outcome.exposed = times.exposed;
  int64_t use = 0, peak = 0;
  for (int64_t change : schedule.change)
    peak = std::max(peak, use += change);
  outcome.peak = static_cast<uint64_t>(peak);
  return outcome;
}

//===----------------------------------------------------------------------===//
// The step
//===----------------------------------------------------------------------===//

StepModel::StepModel(const plan::PlanT &plan, const Cluster &cluster)
    : plan(plan) {
  std::vector<std::string> names;
  for (const auto &state : plan.states)
    if (!state->bucket.empty() &&
        std::ranges::find(names, state->bucket) == names.end())
      names.push_back(state->bucket);
  for (const std::string &name : names)
    facts.push_back({.name = name});
  uint32_t microBatches =
      plan.training ? plan.training->gradient_accumulation_steps : 1;
  std::set<Entry> seen;
  for (const auto &program : plan.programs) {
    Entry entry = getEntry(*program);
    if (entry.kind != plan::ProgramKind::train || !seen.insert(entry).second)
      continue;
    uint32_t runs = 1;
    if (entry.part == plan::StepPart::middle)
      runs = microBatches > 2 ? microBatches - 2 : 0;
    programs.push_back(
        std::make_unique<Program>(plan, *program, cluster, runs, names));
    // Bytes and seconds of the first count: others are like it.
    if (programs.size() == 1)
      programs.back()->addFacts(facts);
  }
  uint64_t peak = 0;
  for (const auto &program : programs)
    peak = std::max(peak, program->evaluate(none()).peak);
  if (plan.memory)
    base = int64_t(plan.memory->peak) - int64_t(peak);
}

StepModel::~StepModel() = default;

const std::vector<BucketFacts> &StepModel::buckets() const { return facts; }

Decisions StepModel::none() const {
  Decisions decisions;
  decisions.kept.assign(facts.size(), false);
  decisions.recomputed.assign(facts.size(), false);
  decisions.offloaded.assign(facts.size(), false);
  return decisions;
}

Outcome StepModel::evaluate(const Decisions &decisions) const {
  Outcome sum;
  for (const auto &program : programs) {
    Outcome each = program->evaluate(decisions);
    sum.seconds += program->runs * each.seconds;
    sum.exposed += program->runs * each.exposed;
    sum.peak = std::max(sum.peak, each.peak);
  }
  sum.peak =
      static_cast<uint64_t>(std::max<int64_t>(0, int64_t(sum.peak) + base));
  return sum;
}

//===- Evaluation.cpp - A program under other decisions -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "decide/StepProgram.h"

#include <algorithm>
#include <map>

using namespace fsdp;

/// Below this, tensors do not leave the device (OffloadActivations).
static constexpr uint64_t kLeastOffloaded = 1024;

namespace fsdp {

/// A place is an instruction, or a kernel that is run again, in the new order.
class Evaluation {
public:
  Evaluation(const StepProgram &program, const Decisions &decisions)
      : program(program), decisions(decisions) {}

  Outcome run();
  MemoryProfile profile();

private:
  /// Of a block's activations, as one.
  struct Copy {
    size_t start, wait; ///< places
    bool toHost;
    uint64_t bytes, count;
  };
  /// A gather, or a copy, that starts or is waited for in front of a place.
  using Slots = std::vector<std::pair<size_t, size_t>>;

  const Repetition &repeated(size_t block) const {
    bool selective = decisions.recomputed[block] == Recomputed::selective;
    return program.again[selective][block];
  }
  bool isAgain(int block) const {
    return block >= 0 &&
           decisions.recomputed[size_t(block)] != Recomputed::none &&
           repeated(size_t(block)).before != kNone;
  }
  bool isKept(const Gather &gather) const {
    return gather.bucket >= 0 && decisions.kept[size_t(gather.bucket)];
  }
  bool leaves(const Storage &storage) const {
    return storage.isSaved() && storage.bytes >= kLeastOffloaded &&
           decisions.offloaded[size_t(storage.block)] &&
           !isAgain(storage.block);
  }
  void live(uint64_t bytes, size_t from, size_t to) {
    change[from] += int64_t(bytes);
    change[to + 1] -= int64_t(bytes);
  }

  void place();
  void order();
  void placeTensors();
  void placeAgain(size_t block);
  void offload(size_t block);
  void placeGathers();
  void placeInTurn(Slots &uses, size_t begin);
  void holdGathered(const Gather &gather, size_t start);
  LaneTimes runSteps() const;

  const StepProgram &program;
  const Decisions &decisions;
  std::vector<uint32_t> instructions; ///< by place
  std::vector<uint32_t> places;       ///< by instruction: its own
  std::vector<uint32_t> againAt;      ///< by block: where that begins
  std::vector<int64_t> change;        ///< of bytes in use, by place
  Slots gatherStarts, gatherWaits, copyStarts, copyWaits;
  std::vector<Copy> copies;
};

} // namespace fsdp

void Evaluation::order() {
  std::multimap<uint32_t, size_t> segments; // by instruction: blocks
  for (size_t i = 0; i < program.blockCount; ++i)
    if (isAgain(int(i)))
      segments.emplace(repeated(i).before, i);
  places.resize(program.size);
  againAt.assign(program.blockCount, kNone);
  for (uint32_t i = 0; i < program.size; ++i) {
    for (auto [it, end] = segments.equal_range(i); it != end; ++it) {
      againAt[it->second] = static_cast<uint32_t>(instructions.size());
      for (uint32_t kernel : repeated(it->second).kernels)
        instructions.push_back(kernel);
    }
    places[i] = static_cast<uint32_t>(instructions.size());
    instructions.push_back(i);
  }
  change.assign(instructions.size() + 1, 0);
}

void Evaluation::placeTensors() {
  for (const Storage &storage : program.storages)
    if (storage.gather < 0 && !leaves(storage) &&
        !(storage.isSaved() && isAgain(storage.block)))
      live(storage.bytes, places[storage.made], places[storage.last]);
  for (size_t block = 0; block < program.blockCount; ++block)
    if (isAgain(int(block)))
      placeAgain(block);
    else if (decisions.offloaded[block])
      offload(block);
}

void Evaluation::placeAgain(size_t block) {
  const Repetition &each = repeated(block);
  size_t begin = againAt[block];
  auto placeOf = [&](uint32_t instruction) {
    return begin + size_t(std::ranges::lower_bound(each.kernels, instruction) -
                          each.kernels.begin());
  };
  for (uint32_t i : program.saved[block]) {
    const Storage &storage = program.storages[i];
    size_t end = places[storage.last];
    if (!std::ranges::binary_search(each.dropped, i)) {
      live(storage.bytes, places[storage.made], end);
      continue;
    }
    live(storage.bytes, places[storage.made], places[storage.lastForward]);
    live(storage.bytes, placeOf(storage.made), end);
  }
  for (auto [index, first, last] : each.temporary)
    live(program.storages[index].bytes, begin + first, begin + last);
}

/// A block's activations leave while the next one computes, and come back while
/// the one behind it does.
void Evaluation::offload(size_t block) {
  uint64_t bytes = 0, count = 0;
  uint32_t lastForward = 0, firstBackward = kNone;
  for (uint32_t i : program.saved[block])
    if (const Storage &storage = program.storages[i]; leaves(storage)) {
      bytes += storage.bytes;
      ++count;
      lastForward = std::max(lastForward, storage.lastForward);
      firstBackward = std::min(firstBackward, storage.firstBackward);
    }
  if (bytes == 0)
    return;
  // Backward is twice as long as forward.
  auto length = uint32_t(std::ranges::count(program.blocks, int(block)) / 3);
  size_t gone = places[std::min(lastForward + length, program.border)];
  uint32_t early = std::max(
      program.border + 1, firstBackward - std::min(firstBackward, 2 * length));
  size_t back = places[std::min(early, firstBackward)];
  copies.push_back({places[lastForward], gone, true, bytes, count});
  copies.push_back({back, places[firstBackward], false, bytes, count});
  for (uint32_t i : program.saved[block])
    if (const Storage &storage = program.storages[i]; leaves(storage)) {
      size_t made = places[storage.made], end = places[storage.last];
      live(storage.bytes, made, std::max(gone, made));
      live(storage.bytes, std::min(back, end), end);
    }
}

void Evaluation::holdGathered(const Gather &gather, size_t start) {
  for (uint32_t index : gather.storages) {
    uint32_t last = program.storages[index].last;
    // Kept until backward has read it.
    if (gather.twin >= 0 && isKept(gather))
      for (uint32_t twin : program.gathers[size_t(gather.twin)].storages)
        last = std::max(last, program.storages[twin].last);
    live(program.storages[index].bytes, start, places[last]);
  }
}

/// Each so many ahead as it is told, and none behind one that is needed later.
void Evaluation::placeInTurn(Slots &uses, size_t begin) {
  std::ranges::stable_sort(uses, {}, &std::pair<size_t, size_t>::first);
  std::vector<size_t> starts(uses.size());
  size_t next = instructions.size();
  for (size_t k = uses.size(); k-- > 0;) {
    auto [use, g] = uses[k];
    const Gather &gather = program.gathers[g];
    size_t ahead =
        gather.bucket >= 0 ? decisions.prefetch[size_t(gather.bucket)] : 1;
    size_t start = k >= ahead ? uses[k - ahead].first : begin;
    starts[k] = next = std::min({start, use, next});
  }
  for (size_t k = 0; k < uses.size(); ++k) {
    auto [use, g] = uses[k];
    gatherStarts.emplace_back(starts[k], g);
    gatherWaits.emplace_back(use, g);
    holdGathered(program.gathers[g], starts[k]);
  }
}

/// Those of backward start behind forward's end.
void Evaluation::placeGathers() {
  Slots forward, backward; // use, gather
  for (size_t g = 0; g < program.gathers.size(); ++g) {
    const Gather &gather = program.gathers[g];
    if (gather.isBackward && gather.twin >= 0 && isKept(gather))
      continue;
    size_t use = places[gather.wait];
    if (gather.isBackward && gather.bucket >= 0)
      for (int block : program.readers[size_t(gather.bucket)])
        if (isAgain(block) &&
            repeated(size_t(block)).buckets.contains(gather.bucket))
          use = std::min<size_t>(use, againAt[size_t(block)]);
    (gather.isBackward ? backward : forward).emplace_back(use, g);
  }
  placeInTurn(forward, 0);
  placeInTurn(backward,
              places[std::min<size_t>(program.border + 1, program.size - 1)]);
}

LaneTimes Evaluation::runSteps() const {
  std::vector<LaneStep> given;
  given.reserve(instructions.size());
  uint32_t transfers = 0;
  std::map<uint32_t, uint32_t> numbers; // of the plan's transfers
  std::vector<uint32_t> gathers(program.gathers.size()), moved(copies.size());
  std::array<size_t, 4> next{};
  /// Calls `give` with each that stands in front of `place`.
  auto pass = [&](size_t list, const Slots &slots, size_t place, auto give) {
    for (; next[list] < slots.size() && slots[next[list]].first == place;
         ++next[list])
      give(slots[next[list]].second);
  };
  for (size_t place = 0; place < instructions.size(); ++place) {
    pass(0, copyStarts, place, [&](size_t c) {
      const Copy &copy = copies[c];
      TransferCost cost = program.collectives.copy(
          copy.toHost, double(copy.bytes), size_t(copy.count));
      moved[c] = transfers;
      given.push_back(
          {LaneStep::start,
           uint8_t(copy.toHost ? plan::Stream::download : plan::Stream::upload),
           transfers++,
           cost.seconds,
           {0, cost.memory, 0, 0}});
    });
    pass(1, gatherStarts, place, [&](size_t g) {
      LaneStep step = program.steps[program.gathers[g].start];
      gathers[g] = step.transfer = transfers++;
      given.push_back(step);
    });
    pass(2, gatherWaits, place, [&](size_t g) {
      LaneStep step = program.steps[program.gathers[g].wait];
      step.transfer = gathers[g];
      given.push_back(step);
    });
    pass(3, copyWaits, place, [&](size_t c) {
      given.push_back({LaneStep::wait, 0, moved[c], 0, {}});
    });

    uint32_t i = instructions[place];
    bool isItself = places[i] == place;
    if (isItself && program.gatherAt[i] >= 0)
      continue;
    LaneStep step = program.steps[i];
    if (step.kind == LaneStep::kernel && program.kinds[i] == WorkKind::none)
      continue;
    if (step.kind == LaneStep::start)
      numbers[step.transfer] = transfers++;
    if (step.kind != LaneStep::kernel)
      step.transfer = numbers.at(step.transfer);
    given.push_back(step);
  }
  return runLanes(given, program.options);
}

void Evaluation::place() {
  order();
  placeTensors();
  placeGathers();
}

MemoryProfile Evaluation::profile() {
  place();
  MemoryProfile profile;
  uint64_t again = 0;
  int64_t use = 0;
  for (size_t at = 0; at < instructions.size(); ++at) {
    use += change[at];
    if (places[instructions[at]] != at) {
      again = std::max(again, uint64_t(use));
      continue;
    }
    profile.at.push_back(uint64_t(use));
    profile.again.push_back(again);
    again = 0;
  }
  return profile;
}

Outcome Evaluation::run() {
  place();
  for (size_t c = 0; c < copies.size(); ++c) {
    copyStarts.emplace_back(copies[c].start, c);
    copyWaits.emplace_back(copies[c].wait, c);
  }
  for (Slots *slots : {&gatherStarts, &gatherWaits, &copyStarts, &copyWaits})
    std::ranges::stable_sort(*slots, {}, &std::pair<size_t, size_t>::first);
  LaneTimes times = runSteps();
  Outcome outcome;
  outcome.seconds = times.seconds;
  outcome.exposed = times.exposed;
  int64_t use = 0, peak = 0;
  for (int64_t each : change)
    peak = std::max(peak, use += each);
  outcome.peak = static_cast<uint64_t>(peak);
  return outcome;
}

Outcome StepProgram::evaluate(const Decisions &decisions) const {
  return Evaluation(*this, decisions).run();
}

MemoryProfile StepProgram::profile(const Decisions &decisions) const {
  return Evaluation(*this, decisions).profile();
}

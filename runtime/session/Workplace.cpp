//===- Workplace.cpp - Where a rank's programs run ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/session/Workplace.h"

#include "runtime/session/Devices.h"

#include <algorithm>
#include <map>

#include <malloc.h>

using namespace fsdp;

Workplace::Workplace(const plan::PlanT &plan, Fabric &ranks,
                     const SessionOptions &options)
    : plan(plan),
      device(options.makeDevice ? options.makeDevice(ranks)
                                : makeDevice(plan, ranks, options.device)),
      fabric(device->fabric()), arena(plan.memory->peak, device->memory()),
      host(plan.host
               ? std::make_unique<Arena>(plan.host->peak,
                                         device->besideMemory(plan.pins_host))
               : nullptr),
      arenas(arena, host.get()),
      memory(device->torch().is_cpu() ? RankMemory::Kind::host
                                      : RankMemory::Kind::device),
      transfers(plan, fabric),
      copies(plan.host ? device->makeCopies() : nullptr),
      shared(plan, fabric, arena) {}

RankContext Workplace::context() {
  return {.plan = plan,
          .arenas = arenas,
          .memory = memory,
          .transfers = transfers,
          .shared = &shared,
          .rank = fabric.rank(),
          .device = *device,
          .copies = copies.get()};
}

void Workplace::finish() noexcept {
  device->finish();
  copies.reset();
}

void Workplace::rehearse(std::span<Executor *const> executors) {
  // Zeros are valid as indices, whatever they point into.
  for (Executor *executor : executors) {
    device->rehearse(*executor);
    arena.clear();
    if (host)
      host->clear();
  }
  // What small temporaries have left on the heap; large ones left nothing.
  malloc_trim(0);
  device->settle();
  // As much on all ranks, so that memory is the same everywhere.
  size_t bytes = 0;
  for (const std::string &each :
       fabric.exchange("scratch", std::to_string(memory.scratchNeeded())))
    bytes = std::max<size_t>(bytes, std::stoull(each));
  scratch.emplace(bytes, device->memory());
  memory.setScratch(scratch->at(0), bytes);
}

void Workplace::poison() {
  if (copies)
    copies->join(); // the host writes beside the device
  for (const Arena *each : {&arenas.device(), arenas.host()}) {
    if (!each)
      continue;
    std::map<uint64_t, uint64_t> owned;
    for (const auto &state : plan.states)
      if (&arenas.of(*state) == each)
        owned[state->offset] =
            std::max(owned[state->offset], state->offset + state->bytes);
    owned[each->bytes()] = each->bytes();
    uint64_t begin = 0;
    for (auto [offset, end] : owned) {
      // All bits set are a NaN in every floating-point type.
      if (begin < offset)
        each->fill(begin, 0xff, offset - begin);
      begin = std::max(begin, end);
    }
  }
}

//===- Staging.cpp - What a rank writes of a checkpoint -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/checkpoint/Staging.h"

#include "plan/DType.h"
#include "support/Hash.h"

using namespace fsdp;

static int countRanks(const plan::PlanT &plan) {
  int count = 1;
  for (const auto &axis : plan.mesh)
    count *= static_cast<int>(axis->size);
  return count;
}

/// What the state, or the flat one that it lies in, is cut by; null if it is
/// not cut.
static const plan::GroupT *groupOf(const plan::PlanT &plan,
                                   const plan::StateT &state) {
  const plan::StateT &home = state.flat >= 0 ? *plan.states[state.flat] : state;
  return home.shard_dim < 0 ? nullptr : plan.groups[home.group].get();
}

CheckpointStaging::CheckpointStaging(const plan::PlanT &plan, int rank)
    : plan(plan), rank(rank), world(countRanks(plan)),
      saved(savedStates(plan)) {
  uint64_t end = 0;
  size_t wholes = 0;
  for (size_t i = 0; i < saved.size(); ++i) {
    const plan::StateT &state = *saved[i].state;
    const plan::GroupT *group = groupOf(plan, state);
    std::optional<size_t> whole;
    if (!group)
      whole = wholes++;
    Region all{std::vector<int64_t>(state.shape.size(), 0), state.shape};
    if (all.elements() == 0) {
      // Nobody has any element of it, and it is to be there by name.
      if (whole || rank == 0)
        pieces.push_back(
            {i, 0, whole, std::move(all), std::nullopt, end, nullptr});
      continue;
    }
    if (group && writerOf(plan, *group, rank, i) != rank)
      continue;
    std::vector<Part> parts = ownParts(plan, state, rank);
    for (size_t number = 0; number < parts.size(); ++number) {
      Region region = parts[number].region;
      pieces.push_back({i, number, whole, std::move(region),
                        std::move(parts[number]), end, nullptr});
      end += bytesOf(pieces.back());
    }
  }
  memory = std::make_unique_for_overwrite<char[]>(end);
}

uint64_t CheckpointStaging::bytesOf(const Piece &piece) const {
  return piece.region.elements() * dtypeBytes(saved[piece.state].state->dtype);
}

void CheckpointStaging::copy(const Arenas &arenas, bool mayChange) {
  for (Piece &piece : pieces) {
    if (!piece.from)
      continue;
    uint64_t element = dtypeBytes(saved[piece.state].state->dtype);
    char *to = memory.get() + piece.offset;
    const Arena &arena = arenas.of(*piece.from->home);
    uint64_t from = piece.from->home->offset + piece.from->first * element;
    bool isInPlace = !mayChange && arena.isHost();
    forEachRun(
        piece.region.size, contiguousStrides(piece.region.size),
        piece.from->strides, [&](uint64_t a, uint64_t b, uint64_t count) {
          isInPlace &= count == piece.region.elements();
          if (!isInPlace)
            arena.read(from + b * element, to + a * element, count * element);
        });
    piece.data = isInPlace ? arena.at(from) : to;
  }
}

std::vector<uint64_t> CheckpointStaging::hashWhole() const {
  std::vector<uint64_t> hashes;
  for (const Piece &piece : pieces)
    if (piece.whole)
      hashes.push_back(hash64({piece.data, bytesOf(piece)}));
  return hashes;
}

std::vector<std::vector<PieceToStore>>
CheckpointStaging::files(const std::vector<bool> &isOfRank) const {
  std::vector<std::vector<PieceToStore>> files;
  for (const Piece &piece : pieces) {
    const SavedState &state = saved[piece.state];
    std::string name = state.name;
    if (piece.whole) {
      if (isOfRank[*piece.whole])
        name = nameOfRank(name, rank);
      else if (static_cast<int>(*piece.whole % world) != rank)
        continue;
    }
    if (files.size() <= piece.file)
      files.resize(piece.file + 1);
    files[piece.file].push_back(
        {std::move(name), state.state->dtype, piece.region, piece.data});
  }
  return files;
}

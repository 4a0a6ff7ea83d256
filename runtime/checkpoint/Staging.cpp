//===- Staging.cpp - What a rank writes of a checkpoint -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/checkpoint/Staging.h"

#include "plan/DType.h"
#include "plan/StateParts.h"
#include "support/Hash.h"

using namespace fsdp;

CheckpointStaging::CheckpointStaging(const plan::PlanT &plan, int rank)
    : plan(plan), rank(rank), saved(savedStates(plan)) {
  uint64_t end = 0;
  for (size_t i = 0; i < saved.size(); ++i) {
    const plan::StateT &state = *saved[i].state;
    std::optional<size_t> copied;
    if (!shardsOf(plan, state)) {
      copied = copies.size();
      copies.push_back(i);
    }
    Region all = Region::all(wholeShape(plan, state));
    if (all.elements() == 0) {
      // Nobody has any element of it, and it is to be there by name.
      if (copied || rank == 0)
        pieces.push_back(
            {i, 0, copied, std::move(all), std::nullopt, end, nullptr});
      continue;
    }
    // Those who hold the same shard take turns.
    if (!copied) {
      std::vector<int> holders = fsdp::holdersOf(plan, state, rank);
      if (holders[i % holders.size()] != rank)
        continue;
    }
    std::vector<Part> parts = ownParts(plan, state, rank);
    for (size_t number = 0; number < parts.size(); ++number) {
      Region region = parts[number].region;
      pieces.push_back({i, number, copied, std::move(region),
                        std::move(parts[number]), end, nullptr});
      end += bytesOf(pieces.back());
    }
  }
  memory = std::make_unique_for_overwrite<char[]>(end);
}

/// The ranks that hold the same elements as `ofRank`; the first one's copy is
/// the one that counts where ranks differ and are others later.
std::vector<int> CheckpointStaging::holdersOf(size_t copied, int ofRank) const {
  return fsdp::holdersOf(plan, *saved[copies[copied]].state, ofRank);
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

std::vector<uint64_t> CheckpointStaging::hashCopies() const {
  std::vector<uint64_t> hashes(copies.size(), 0);
  for (const Piece &piece : pieces)
    if (piece.copied && holdersOf(*piece.copied, rank).size() > 1)
      hashes[*piece.copied] = hash64({piece.data, bytesOf(piece)});
  return hashes;
}

std::vector<bool> CheckpointStaging::findDifferences(
    const std::vector<std::vector<uint64_t>> &hashes) const {
  std::vector<bool> differs(copies.size(), false);
  for (size_t i = 0; i < differs.size(); ++i)
    for (size_t each = 0; each < hashes.size(); ++each) {
      auto first =
          static_cast<size_t>(holdersOf(i, static_cast<int>(each)).front());
      if (hashes[each][i] != hashes[first][i])
        differs[i] = true;
    }
  return differs;
}

std::vector<std::vector<PieceToStore>>
CheckpointStaging::files(const std::vector<bool> &differs) const {
  std::vector<std::vector<PieceToStore>> files;
  for (const Piece &piece : pieces) {
    const SavedState &state = saved[piece.state];
    std::string name = state.name;
    if (piece.copied) {
      std::vector<int> holders = holdersOf(*piece.copied, rank);
      if (differs[*piece.copied])
        name = nameOfCopy(name, copyOf(holders, rank));
      else if (holders[*piece.copied % holders.size()] != rank)
        continue;
    }
    if (files.size() <= piece.file)
      files.resize(piece.file + 1);
    files[piece.file].push_back(
        {std::move(name), state.state->dtype, piece.region, piece.data});
  }
  return files;
}

std::vector<ManifestState>
CheckpointStaging::describe(const std::vector<bool> &differs) const {
  std::vector<ManifestState> states;
  for (const auto &[state, name] : saved)
    states.push_back(
        {name, state->role, state->dtype, wholeShape(plan, *state)});
  for (size_t i = 0; i < copies.size(); ++i)
    if (differs[i])
      states[copies[i]].copies = holdersOf(i, rank).size();
  return states;
}

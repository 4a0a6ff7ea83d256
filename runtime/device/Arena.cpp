//===- Arena.cpp - The one mapping that holds a rank's tensors ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/device/Arena.h"

#include "runtime/device/Pages.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <shared_mutex>
#include <vector>

using namespace fsdp;

namespace {

/// Never destroyed: LibTorch frees memory until the process ends.
struct Registry {
  std::shared_mutex mutex;
  std::vector<const Arena *> arenas;
};

Registry &registry() {
  static Registry &instance = *new Registry;
  return instance;
}

} // namespace

Arena::Arena(uint64_t bytes, Memory &memory)
    // The page beyond the end makes empty tensors at the end lie inside.
    : memory(memory), size(bytes), mapped((bytes / kPage + 1) * kPage),
      base(memory.map(mapped)) {
  std::unique_lock lock(registry().mutex);
  registry().arenas.push_back(this);
}

Arena::~Arena() {
  {
    std::unique_lock lock(registry().mutex);
    std::erase(registry().arenas, this);
  }
  memory.unmap(base, mapped);
}

void Arena::move(uint64_t offset, uint64_t bytes, char *to) {
  moved[offset] = {bytes, to};
}

char *Arena::at(uint64_t offset) const {
  auto behind = moved.upper_bound(offset);
  if (behind != moved.begin()) {
    const auto &[begin, part] = *std::prev(behind);
    if (offset - begin < part.bytes)
      return part.begin + (offset - begin);
  }
  return base + offset;
}

void Arena::clear() { memory.clear(base, mapped); }

bool Arena::anyContains(const void *pointer) {
  std::shared_lock lock(registry().mutex);
  return std::any_of(
      registry().arenas.begin(), registry().arenas.end(),
      [&](const Arena *arena) { return arena->contains(pointer); });
}

BytesToWrite::BytesToWrite(const Arena &arena, uint64_t offset, uint64_t bytes)
    : arena(arena), offset(offset), bytes(bytes),
      buffer(arena.isHost() ? nullptr
                            : std::make_unique_for_overwrite<char[]>(bytes)),
      begin(buffer ? buffer.get() : arena.at(offset)) {}

void BytesToWrite::flush() {
  if (buffer)
    arena.write(offset, buffer.get(), bytes);
}

BytesToRead::BytesToRead(const Arena &arena, uint64_t offset, uint64_t bytes)
    : buffer(arena.isHost() ? nullptr
                            : std::make_unique_for_overwrite<char[]>(bytes)),
      begin(buffer ? buffer.get() : arena.at(offset)) {
  if (buffer)
    arena.read(offset, buffer.get(), bytes);
}

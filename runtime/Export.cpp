//===- Export.cpp - Unsharded weights into one file -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/Export.h"

#include "runtime/States.h"
#include "runtime/Transfers.h"
#include "runtime/plan/DType.h"
#include "runtime/support/AtomicFile.h"
#include "runtime/support/Error.h"
#include "runtime/weights/Safetensors.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

using namespace fsdp;

/// What a rank holds of all ranks' rows at once.
static constexpr uint64_t kBlockBytes = 8 << 20;

/// The members of a flat state are, it is not.
static bool isExported(const plan::StateT &state) {
  if (state.layout == plan::Layout::flat)
    return false;
  return state.role == plan::Role::parameter ||
         state.role == plan::Role::frozen ||
         (state.role == plan::Role::buffer && !state.volatile_);
}

namespace {

class Exporter {
public:
  Exporter(const plan::PlanT &plan, const Arena &arena, Fabric &fabric,
           const std::string &key, const std::string &path);
  void run();

private:
  struct Entry {
    const plan::StateT *state;
    std::vector<uint64_t> offsets; ///< in the file, one for each name
  };

  void writeOwn(const Entry &entry);
  Communicator &getCommunicator(uint32_t group, const std::vector<int> &ranks);
  void gather(const Entry &entry);
  void gatherFlat(const plan::StateT &flat,
                  const std::vector<const Entry *> &members);
  void writeRows(const Entry &entry, const std::vector<int> &ranks,
                 const char *gathered, uint64_t first, uint64_t count);
  void writeRuns(const Entry &entry, const std::vector<int> &ranks,
                 const char *gathered, uint64_t first, uint64_t count);
  void write(const Entry &entry, uint64_t at, const char *data, uint64_t bytes);

  const plan::PlanT &plan;
  const Arena &arena;
  Fabric &fabric;
  const std::string key;
  std::optional<AtomicFile> file; ///< on rank 0
  std::vector<Entry> entries;
  std::map<uint32_t, std::unique_ptr<Communicator>> communicators;
};

Exporter::Exporter(const plan::PlanT &plan, const Arena &arena, Fabric &fabric,
                   const std::string &key, const std::string &path)
    : plan(plan), arena(arena), fabric(fabric), key(key) {
  std::vector<TensorToStore> tensors;
  std::vector<size_t> owners;
  for (const auto &state : plan.states) {
    if (!isExported(*state))
      continue;
    std::vector<std::string> names = state->aliases;
    names.insert(names.begin(), state->name);
    for (const std::string &name : names) {
      tensors.push_back({name, state->dtype, state->shape});
      owners.push_back(entries.size());
    }
    entries.push_back({state.get(), {}});
  }
  std::string head = layoutSafetensors(tensors);
  for (size_t i = 0; i < tensors.size(); ++i)
    entries[owners[i]].offsets.push_back(tensors[i].offset);
  if (fabric.rank() == 0) {
    file.emplace(path);
    file->write(head);
  }
}

void Exporter::write(const Entry &entry, uint64_t at, const char *data,
                     uint64_t bytes) {
  for (uint64_t offset : entry.offsets)
    file->writeAt(offset + at, std::string_view(data, bytes));
}

void Exporter::writeOwn(const Entry &entry) {
  if (file)
    write(entry, 0, arena.at(entry.state->offset), entry.state->bytes);
}

Communicator &Exporter::getCommunicator(uint32_t group,
                                        const std::vector<int> &ranks) {
  std::unique_ptr<Communicator> &communicator = communicators[group];
  if (!communicator)
    communicator = fabric.createCommunicator(
        {plan.groups[group]->name + "/" + key, ranks});
  return *communicator;
}

/// A block of each rank's part has elements of some members.
void Exporter::gatherFlat(const plan::StateT &flat,
                          const std::vector<const Entry *> &members) {
  std::vector<int> ranks = groupRanks(*plan.groups[flat.group], fabric.rank());
  Communicator &communicator = getCommunicator(flat.group, ranks);
  uint64_t part = flatPart(plan, flat), element = dtypeBytes(flat.dtype);
  uint64_t block =
      std::max<uint64_t>(1, kBlockBytes / (element * ranks.size()));
  auto buffer =
      std::make_unique<char[]>(std::min(block, part) * element * ranks.size());
  for (uint64_t first = 0; first < part; first += block) {
    uint64_t count = std::min(block, part - first);
    GatherMember member{arena.at(flat.offset + first * element), buffer.get(),
                        count * element};
    communicator.wait(
        communicator.startAllGather({&member, 1}, {"export", flat.name}));
    if (!file)
      continue;
    for (size_t i = 0; i < ranks.size(); ++i)
      for (const Entry *entry : members) {
        Overlap own = overlapOf(*entry->state, i * part + first, count);
        write(*entry, own.first * element,
              buffer.get() + (i * count + own.at) * element,
              own.count * element);
      }
  }
}

void Exporter::gather(const Entry &entry) {
  const plan::StateT &state = *entry.state;
  std::vector<int> ranks = groupRanks(*plan.groups[state.group], fabric.rank());
  Communicator &communicator = getCommunicator(state.group, ranks);
  OwnRows own = ownRows(plan, state, fabric.rank());
  // What is cut along its first dim is one run of rows, of which a block takes
  // some; else a block takes whole runs, which rank 0 puts together.
  bool isOneRun = state.shard_dim == 0;
  uint64_t unitBytes =
      isOneRun ? own.rowBytes : own.rowBytes * static_cast<uint64_t>(own.room);
  if (unitBytes == 0)
    return;
  auto units = static_cast<uint64_t>(isOneRun ? own.room : own.outer);
  uint64_t block =
      std::max<uint64_t>(1, kBlockBytes / (unitBytes * ranks.size()));
  auto buffer = std::make_unique<char[]>(std::min(block, units) * unitBytes *
                                         ranks.size());
  for (uint64_t first = 0; first < units; first += block) {
    uint64_t count = std::min(block, units - first);
    GatherMember member{arena.at(state.offset + first * unitBytes),
                        buffer.get(), count * unitBytes};
    communicator.wait(
        communicator.startAllGather({&member, 1}, {"export", state.name}));
    if (!file)
      continue;
    if (isOneRun)
      writeRows(entry, ranks, buffer.get(), first, count);
    else
      writeRuns(entry, ranks, buffer.get(), first, count);
  }
}

/// Rows [first, first + count) of each rank's shard.
void Exporter::writeRows(const Entry &entry, const std::vector<int> &ranks,
                         const char *gathered, uint64_t first, uint64_t count) {
  for (size_t i = 0; i < ranks.size(); ++i) {
    OwnRows rows = ownRows(plan, *entry.state, ranks[i]);
    uint64_t bytes = count * rows.rowBytes, at = first * rows.rowBytes;
    uint64_t end = static_cast<uint64_t>(rows.count) * rows.rowBytes;
    if (at < end)
      write(entry, static_cast<uint64_t>(rows.first) * rows.rowBytes + at,
            gathered + i * bytes, std::min(bytes, end - at));
  }
}

/// Runs [first, first + count), each of which has rows of all ranks.
void Exporter::writeRuns(const Entry &entry, const std::vector<int> &ranks,
                         const char *gathered, uint64_t first, uint64_t count) {
  std::vector<char> whole;
  uint64_t runBytes = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    OwnRows rows = ownRows(plan, *entry.state, ranks[i]);
    uint64_t room = static_cast<uint64_t>(rows.room) * rows.rowBytes;
    runBytes = static_cast<uint64_t>(rows.all) * rows.rowBytes;
    whole.resize(count * runBytes);
    for (uint64_t run = 0; run < count; ++run)
      std::memcpy(whole.data() + run * runBytes +
                      static_cast<uint64_t>(rows.first) * rows.rowBytes,
                  gathered + (i * count + run) * room,
                  static_cast<uint64_t>(rows.count) * rows.rowBytes);
  }
  write(entry, first * runBytes, whole.data(), whole.size());
}

void Exporter::run() {
  std::map<int32_t, std::vector<const Entry *>> flats;
  for (const Entry &entry : entries) {
    if (entry.state->flat >= 0)
      flats[entry.state->flat].push_back(&entry);
    else if (entry.state->shard_dim < 0)
      writeOwn(entry);
    else
      gather(entry);
  }
  for (const auto &[flat, members] : flats)
    gatherFlat(*plan.states[flat], members);
  if (file)
    file->commit();
  // Nobody is done before the file is there.
  fabric.exchange(key, "written");
}

} // namespace

void fsdp::exportWeights(const plan::PlanT &plan, const Arena &arena,
                         Fabric &fabric, const std::string &key,
                         const std::string &path) {
  Exporter(plan, arena, fabric, key, path).run();
}

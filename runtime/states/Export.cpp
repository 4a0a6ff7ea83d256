//===- Export.cpp - Unsharded weights into files --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/states/Export.h"

#include "plan/DType.h"
#include "plan/Shape.h"
#include "runtime/exec/Transfers.h"
#include "runtime/states/States.h"
#include "runtime/weights/Safetensors.h"
#include "support/AtomicFile.h"
#include "support/Error.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
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
  Exporter(const plan::PlanT &plan, const Arenas &arenas, Fabric &fabric,
           const std::string &key);
  void open(const std::string &path);
  void openFolder(const std::string &path, uint64_t shardBytes);
  void run();

private:
  struct Place {
    size_t file;
    uint64_t offset;
  };
  struct Entry {
    const plan::StateT *state;
    std::vector<Place> places; ///< one for each name
  };
  /// Tensors of one file, and the entries that they belong to.
  struct Contents {
    std::vector<TensorToStore> tensors;
    std::vector<size_t> owners;
    uint64_t bytes = 0;
  };

  std::vector<Contents> divide(uint64_t shardBytes);
  void addFile(const std::string &path, Contents contents);
  bool isWriter() const { return fabric.rank() == 0; }

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
  const Arenas &arenas;
  Fabric &fabric;
  const std::string key;
  // On rank 0:
  std::vector<std::unique_ptr<AtomicFile>> files;
  std::optional<AtomicFile> index;
  std::string replaced; ///< a file that readers would prefer to the new ones
  std::vector<Entry> entries;
  std::map<uint32_t, std::unique_ptr<Communicator>> communicators;
};

Exporter::Exporter(const plan::PlanT &plan, const Arenas &arenas,
                   Fabric &fabric, const std::string &key)
    : plan(plan), arenas(arenas), fabric(fabric), key(key) {
  for (const auto &state : plan.states)
    if (isExported(*state))
      entries.push_back({state.get(), {}});
}

/// All tensors, in files of at most `shardBytes` or one tensor.
std::vector<Exporter::Contents> Exporter::divide(uint64_t shardBytes) {
  std::vector<Contents> all(1);
  for (size_t i = 0; i < entries.size(); ++i) {
    const plan::StateT &state = *entries[i].state;
    uint64_t bytes = *checkedExtent(state.shape, {}, dtypeBytes(state.dtype));
    std::vector<std::string> names = state.aliases;
    names.insert(names.begin(), state.name);
    for (const std::string &name : names) {
      if (all.back().bytes != 0 && all.back().bytes + bytes > shardBytes)
        all.emplace_back();
      all.back().tensors.push_back({name, state.dtype, state.shape});
      all.back().owners.push_back(i);
      all.back().bytes += bytes;
    }
  }
  return all;
}

void Exporter::addFile(const std::string &path, Contents contents) {
  std::string head = layoutSafetensors(contents.tensors);
  for (size_t i = 0; i < contents.tensors.size(); ++i)
    entries[contents.owners[i]].places.push_back(
        {files.size(), contents.tensors[i].offset});
  files.push_back(std::make_unique<AtomicFile>(path));
  files.back()->write(head);
}

void Exporter::open(const std::string &path) {
  addFile(path, std::move(divide(UINT64_MAX).front()));
}

void Exporter::openFolder(const std::string &path, uint64_t shardBytes) {
  namespace fs = std::filesystem;
  std::error_code code;
  fs::create_directories(path, code);
  if (code)
    throw Error(ErrorId::FileNotWritable,
                "folder '" + path + "' cannot be made: " + code.message());
  std::string single = (fs::path(path) / "model.safetensors").string();
  std::string indexPath = single + ".index.json";
  std::vector<Contents> all = divide(shardBytes);
  if (all.size() == 1) {
    addFile(single, std::move(all.front()));
    replaced = indexPath;
    return;
  }
  nlohmann::ordered_json map = nlohmann::ordered_json::object();
  uint64_t total = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    char name[64];
    std::snprintf(name, sizeof(name), "model-%05zu-of-%05zu.safetensors", i + 1,
                  all.size());
    total += all[i].bytes;
    for (const TensorToStore &tensor : all[i].tensors)
      map[tensor.name] = name;
    addFile((fs::path(path) / name).string(), std::move(all[i]));
  }
  index.emplace(indexPath);
  index->write(nlohmann::ordered_json{{"metadata", {{"total_size", total}}},
                                      {"weight_map", map}}
                   .dump(2) +
               "\n");
  replaced = single;
}

void Exporter::write(const Entry &entry, uint64_t at, const char *data,
                     uint64_t bytes) {
  for (const Place &place : entry.places)
    files[place.file]->writeAt(place.offset + at,
                               std::string_view(data, bytes));
}

void Exporter::writeOwn(const Entry &entry) {
  if (isWriter())
    write(entry, 0,
          BytesToRead(arenas.of(*entry.state), entry.state->offset,
                      entry.state->bytes)
              .data(),
          entry.state->bytes);
}

Communicator &Exporter::getCommunicator(uint32_t group,
                                        const std::vector<int> &ranks) {
  std::unique_ptr<Communicator> &communicator = communicators[group];
  if (!communicator)
    communicator = fabric.createHostCommunicator(
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
    BytesToRead own(arenas.of(flat), flat.offset + first * element,
                    count * element);
    GatherMember member{own.data(), buffer.get(), count * element};
    communicator.wait(
        communicator.startAllGather({&member, 1}, {"export", flat.name}));
    if (!isWriter())
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
    BytesToRead part(arenas.of(state), state.offset + first * unitBytes,
                     count * unitBytes);
    GatherMember member{part.data(), buffer.get(), count * unitBytes};
    communicator.wait(
        communicator.startAllGather({&member, 1}, {"export", state.name}));
    if (!isWriter())
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
  for (const auto &file : files)
    file->commit();
  if (index)
    index->commit();
  if (!replaced.empty()) {
    std::error_code code;
    std::filesystem::remove(replaced, code);
  }
  // Nobody is done before the file is there.
  fabric.exchange(key, "written");
}

} // namespace

bool fsdp::isExportFolder(const std::string &path) {
  std::error_code code;
  return path.ends_with('/') || std::filesystem::is_directory(path, code);
}

void fsdp::exportWeights(const plan::PlanT &plan, const Arenas &arenas,
                         Fabric &fabric, const std::string &key,
                         const std::string &path, uint64_t shardBytes) {
  Exporter exporter(plan, arenas, fabric, key);
  if (fabric.rank() == 0) {
    if (isExportFolder(path))
      exporter.openFolder(path, shardBytes);
    else
      exporter.open(path);
  }
  exporter.run();
}

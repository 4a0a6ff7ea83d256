//===- Checkpointer.cpp - Saves a run as it goes --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/train/Checkpointer.h"

#include "runtime/checkpoint/Folder.h"
#include "runtime/checkpoint/Manifest.h"
#include "runtime/checkpoint/Staging.h"
#include "runtime/checkpoint/Validations.h"
#include "runtime/comm/Communicator.h"
#include "runtime/comm/SharedWork.h"
#include "runtime/log/Log.h"
#include "support/AtomicFile.h"
#include "support/Hash.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <future>
#include <utility>

#include <sys/resource.h>

using namespace fsdp;

using Clock = std::chrono::steady_clock;

/// Of the writing thread.
static constexpr int kNiceness = 10;

//===----------------------------------------------------------------------===//
// The writing thread
//===----------------------------------------------------------------------===//

/// Of rank 0, behind a checkpoint that is on the disk.
static void tidy(const CheckpointFolder &folder,
                 const CheckpointOptions &options) {
  std::optional<uint64_t> best;
  if (options.keepsBest)
    best = findBestStep(folder);
  if (best)
    folder.nameBest(*best);
  if (options.keep != 0)
    folder.keep(options.keep, best);
}

/// This rank's part in writing checkpoints, one after another.
class Checkpointer::Writer {
public:
  Writer(Session &session, const CheckpointOptions &options)
      : fabric(session.fabric()), options(options), folder(options.folder),
        staging(session.plan(), session.rank()) {}

  /// Copies the states; a thread writes them. The last save has ended.
  void start(const Session &session);
  bool isBusy() const { return running.valid(); }
  bool isDone() const {
    return running.wait_for(std::chrono::seconds(0)) ==
           std::future_status::ready;
  }
  /// Waits for the thread and throws what it threw.
  void join() { running.get(); }

private:
  void write();
  std::vector<bool> findDifferences();
  std::vector<FileSeal> writeFiles(const std::vector<bool> &differs) const;
  void commit(const std::vector<std::string> &seals,
              const std::vector<bool> &differs);
  std::vector<std::string> agree(const char *stage,
                                 const std::function<std::string()> &work);

  Fabric &fabric;
  const CheckpointOptions options;
  const CheckpointFolder folder;
  CheckpointStaging staging;
  // Of the checkpoint that is being written:
  Manifest manifest;
  Clock::time_point begin, copied;
  uint64_t number = 0;
  std::future<void> running;
};

void Checkpointer::Writer::start(const Session &session) {
  begin = Clock::now();
  staging.copy(session.arenas(), /*mayChange=*/!options.isInStep);
  copied = Clock::now();
  manifest = Manifest();
  manifest.step = session.stepsDone();
  manifest.rows = session.rowsRead();
  manifest.seed = session.seed();
  std::tie(manifest.lr, manifest.schedule) = session.learningRate();
  for (const auto &axis : session.plan().mesh)
    manifest.mesh.emplace_back(axis->name, axis->size);
  manifest.plan = session.planHash();
  ++number;
  running = std::async(std::launch::async, [this] { write(); });
}

/// Does `work` on each rank and returns what it gave, by rank. If it failed on
/// one, all throw what that rank says, so that none waits for it.
std::vector<std::string>
Checkpointer::Writer::agree(const char *stage,
                            const std::function<std::string()> &work) {
  return shareWork(
      fabric, options.name + "/" + std::to_string(number) + "/" + stage, work,
      [&](size_t rank, const std::string &message) {
        // The disk may be full of it.
        if (fabric.rank() == 0)
          folder.discard(manifest.step);
        throw Error(ErrorId::CheckpointNotWritten,
                    "the checkpoint '" + folder.nameOf(manifest.step) +
                        "' was not written: rank " + std::to_string(rank) +
                        ": " + message);
      });
}

/// For each state that FSDP does not cut, whether ranks differ in it: buffers
/// that each rank updates with its own rows, parameters that are not reduced.
std::vector<bool> Checkpointer::Writer::findDifferences() {
  std::vector<uint64_t> hashes = staging.hashCopies();
  std::string text;
  for (uint64_t hash : hashes)
    text += toHex(hash);
  std::vector<std::string> all = agree("begin", [&] {
    if (fabric.rank() == 0)
      folder.begin(manifest.step);
    return hash128(text);
  });
  if (std::ranges::all_of(
          all, [&](const auto &each) { return each == all.front(); }))
    return std::vector<bool>(hashes.size(), false);
  // Those who hold the same part are to be told from those who do not.
  std::vector<std::vector<uint64_t>> byRank;
  size_t digits = toHex(0).size();
  for (const std::string &each : agree("differ", [&] { return text; })) {
    byRank.emplace_back();
    for (size_t i = 0; i < hashes.size(); ++i)
      byRank.back().push_back(
          std::stoull(each.substr(i * digits, digits), nullptr, 16));
  }
  return staging.findDifferences(byRank);
}

std::vector<FileSeal>
Checkpointer::Writer::writeFiles(const std::vector<bool> &differs) const {
  std::filesystem::path to = folder.temporaryOf(manifest.step);
  auto files = staging.files(differs);
  std::vector<FileSeal> seals;
  for (size_t i = 0; i < files.size(); ++i) {
    // The names of torch.distributed.checkpoint's HuggingFaceStorageWriter.
    char name[80];
    std::snprintf(name, sizeof(name),
                  "shard-%05d-model-%05zu-of-%05zu.safetensors",
                  fabric.rank() + 1, i + 1, files.size());
    if (!files[i].empty())
      seals.push_back(
          writeCheckedFile((to / name).string(), std::move(files[i])));
  }
  if (!seals.empty())
    syncFolder(to.string());
  return seals;
}

void Checkpointer::Writer::commit(const std::vector<std::string> &seals,
                                  const std::vector<bool> &differs) {
  for (const std::string &text : seals)
    for (const auto &each : nlohmann::json::parse(text))
      manifest.files.push_back({each.at(0), each.at(1), each.at(2)});
  manifest.states = staging.describe(differs);
  std::filesystem::path to = folder.temporaryOf(manifest.step);
  writeFileAtomically((to / kManifestName).string(), printManifest(manifest));
  folder.commit(manifest.step);
}

void Checkpointer::Writer::write() {
  // Steps go first where both want a processor. On Linux it is the thread's.
  if (!options.isInStep)
    (void)setpriority(PRIO_PROCESS, /*who=*/0, kNiceness);
  std::vector<bool> differs = findDifferences();
  std::vector<std::string> seals = agree("written", [&] {
    nlohmann::json list = nlohmann::json::array();
    for (const FileSeal &seal : writeFiles(differs))
      list.push_back({seal.name, seal.bytes, seal.head});
    return list.dump();
  });
  agree("committed", [&] {
    if (fabric.rank() == 0)
      commit(seals, differs);
    return std::string();
  });
  if (fabric.rank() != 0)
    return;
  auto seconds = [&](Clock::time_point end) {
    return std::to_string(std::chrono::duration<double>(end - begin).count());
  };
  log(LogLevel::info, "wrote '" + folder.nameOf(manifest.step) + "' in " +
                          seconds(Clock::now()) + " s, " + seconds(copied) +
                          " s of them for the copy");
  tidy(folder, options);
}

//===----------------------------------------------------------------------===//
// The rank's own thread
//===----------------------------------------------------------------------===//

/// Better refused now than after hours of training.
static void checkFolder(const Session &session,
                        const CheckpointFolder &folder) {
  uint64_t start = session.stepsDone();
  std::vector<uint64_t> steps = folder.steps();
  if (steps.empty() || steps.back() < start)
    return;
  std::error_code code;
  std::string last = folder.nameOf(steps.back());
  if (steps.back() == start &&
      std::filesystem::equivalent(last, session.loadedFrom(), code))
    return;
  throw Error(ErrorId::CheckpointInTheWay,
              "--save: '" + folder.path() + "' has a checkpoint '" + last +
                  "', and this run is at step " + std::to_string(start) +
                  "; continue from it with --load=latest, or, where it is "
                  "damaged or of another run, delete it or save to another "
                  "folder");
}

Checkpointer::Checkpointer(Session &session, const CheckpointOptions &options)
    : session(session), options(options) {
  if (!session.isTraining())
    throw Error(ErrorId::RuntimeUnsupported,
                "--save needs an artifact that trains; --export writes the "
                "weights");
  CheckpointFolder folder(options.folder);
  if (session.rank() == 0) {
    folder.checkWritable();
    lock.emplace(options.folder);
    checkFolder(session, folder);
  }
  // That of the folder itself need not be written again.
  std::error_code code;
  bool isThere = std::filesystem::equivalent(folder.nameOf(session.stepsDone()),
                                             session.loadedFrom(), code);
  if (session.fabric().exchange(options.name + "/folder",
                                isThere ? "1" : "0")[0] == "1")
    saved = session.stepsDone();
  writer = std::make_unique<Writer>(session, options);
}

Checkpointer::~Checkpointer() = default;

void Checkpointer::afterStep() {
  if (writer->isBusy() && writer->isDone())
    writer->join();
  if (options.every != 0 && session.stepsDone() % options.every == 0)
    save();
}

void Checkpointer::save() {
  if (session.stepsDone() == saved)
    return;
  wait();
  writer->start(session);
  saved = session.stepsDone();
  if (options.isInStep)
    writer->join();
}

void Checkpointer::wait() {
  if (writer->isBusy())
    writer->join();
}

void Checkpointer::finish() {
  bool isNew = session.stepsDone() != saved;
  save();
  wait();
  // A run that ended between a save and the removal of older ones has left
  // them, and this one may have had no step to do.
  if (!isNew && session.rank() == 0)
    tidy(CheckpointFolder(options.folder), options);
}

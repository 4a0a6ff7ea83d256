//===- Loader.cpp - States out of a checkpoint ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/checkpoint/Loader.h"

#include "plan/DType.h"
#include "plan/FirstValues.h"
#include "plan/Shape.h"
#include "plan/StateParts.h"
#include "runtime/checkpoint/Folder.h"
#include "runtime/device/DTypes.h"
#include "runtime/log/Log.h"
#include "runtime/states/Parts.h"
#include "support/Hash.h"
#include "support/Nearest.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <filesystem>

using namespace fsdp;
namespace fs = std::filesystem;

static constexpr std::string_view kSuffix = ".safetensors";
/// Of what does not fit, how many are named.
static constexpr size_t kNamedProblems = 3;

//===----------------------------------------------------------------------===//
// Which one
//===----------------------------------------------------------------------===//

/// Safetensors files in `path`, or itself, by name.
static std::vector<std::string> listSafetensors(const std::string &path) {
  std::error_code code;
  if (fs::is_regular_file(path, code))
    return {path};
  std::vector<std::string> found;
  for (fs::directory_iterator it(path, code), end; !code && it != end;
       it.increment(code))
    if (it->path().filename().string().ends_with(kSuffix))
      found.push_back(it->path().string());
  std::ranges::sort(found);
  return found;
}

static bool hasManifest(const std::string &path) {
  std::error_code code;
  return fs::exists(fs::path(path) / kManifestName, code);
}

/// What the manifest says, or nothing where there is none.
static std::string fingerprintOf(const std::string &path) {
  return hasManifest(path) ? hash128(printManifest(readManifest(path))) : "";
}

std::optional<std::string> fsdp::agreeOnCheckpoint(Fabric &fabric,
                                                   const std::string &path,
                                                   bool mayBeMissing,
                                                   const std::string &key) {
  // Hash of the manifest, then the path.
  std::string mine;
  if (fabric.rank() == 0) {
    std::optional<std::string> chosen = findCheckpoint(path);
    if (!chosen && !mayBeMissing) {
      if (listSafetensors(path).empty())
        throw Error(ErrorId::CheckpointMissing,
                    "--load: '" + path +
                        "' holds no checkpoint: expected a folder with " +
                        kManifestName + ", with folders step_N that have " +
                        "one, or with .safetensors files; name another one, "
                        "or start from scratch without --load");
      chosen = path;
    }
    if (chosen)
      mine = fingerprintOf(*chosen) + "\n" + *chosen;
  }
  std::string all = fabric.exchange(key, mine).front();
  if (all.empty())
    return std::nullopt;
  size_t end = all.find('\n');
  std::string chosen = all.substr(end + 1);
  if (fabric.rank() != 0 && fingerprintOf(chosen) != all.substr(0, end))
    throw Error(ErrorId::CheckpointMissing,
                "rank " + std::to_string(fabric.rank()) +
                    " does not find the checkpoint '" + chosen +
                    "' that rank 0 has: all ranks need to see the same "
                    "folder");
  return chosen;
}

//===----------------------------------------------------------------------===//
// Whether it fits
//===----------------------------------------------------------------------===//

CheckpointLoader::CheckpointLoader(const plan::PlanT &plan, int rank,
                                   const std::string &path)
    : plan(plan), rank(rank), path(path), states(savedStates(plan)) {
  if (hasManifest(path))
    own = readManifest(path);
  listFiles(path);
  Wanted wanted = chooseNames();
  scan(wanted);
  checkModel(wanted);
  checkComplete();
}

void CheckpointLoader::listFiles(const std::string &path) {
  if (own)
    for (const FileSeal &seal : own->files)
      files.push_back({(fs::path(path) / seal.name).string(), seal, {}});
  else
    for (const std::string &file : listSafetensors(path))
      files.push_back({file, std::nullopt, {}});
}

/// Names in the files. Of a state that ranks had copies of, the first is taken
/// if the ranks are others now.
CheckpointLoader::Wanted CheckpointLoader::chooseNames() const {
  Wanted wanted;
  std::map<std::string, uint64_t> copies;
  if (own) {
    std::vector<std::pair<std::string, uint32_t>> mesh;
    for (const auto &axis : plan.mesh)
      mesh.emplace_back(axis->name, axis->size);
    if (own->mesh == mesh)
      for (const ManifestState &state : own->states)
        copies[state.name] = state.copies;
  }
  for (const SavedState &saved : states) {
    std::string name = saved.name;
    if (auto it = copies.find(name); it != copies.end() && it->second > 1) {
      std::vector<int> holders = holdersOf(plan, *saved.state, rank);
      if (holders.size() == it->second)
        name = nameOfCopy(name, copyOf(holders, rank));
    }
    wanted[name] = saved.state;
    // Others may have chosen another name of a tied parameter.
    if (!own && !saved.state->quantized)
      for (const std::string &alias : saved.state->aliases)
        wanted.try_emplace(alias, saved.state);
  }
  return wanted;
}

void CheckpointLoader::scan(const Wanted &wanted) {
  std::map<const plan::StateT *, std::string> names;
  for (File &file : files) {
    CheckedFile opened(file.path, file.seal);
    if (!own && opened.isOurs())
      throw Error(ErrorId::CheckpointDamaged,
                  "'" + path + "' has no " + kManifestName +
                      ": it was not finished; load another checkpoint");
    for (const StoredPiece &piece : opened.pieces()) {
      auto it = wanted.find(piece.name);
      Stored &all =
          stored.try_emplace(piece.name, Stored{piece.dtype, {}}).first->second;
      all.shape.resize(piece.region.size.size());
      if (all.dtype != piece.dtype ||
          all.shape.size() != piece.region.size.size())
        throw Error(ErrorId::CheckpointDamaged,
                    "the pieces of '" + piece.name + "' in '" + path +
                        "' have different types or numbers of dims");
      for (size_t i = 0; i < all.shape.size(); ++i)
        all.shape[i] = std::max(all.shape[i],
                                piece.region.offset[i] + piece.region.size[i]);
      if (it == wanted.end() || it->second->shape.size() != all.shape.size())
        continue;
      // Of several names, the first that comes.
      if (names.try_emplace(it->second, piece.name).first->second != piece.name)
        continue;
      for (const Part &part : ownParts(plan, *it->second, rank))
        if (intersect(part.region, piece.region).elements() != 0) {
          file.sources.push_back({it->second, piece});
          break;
        }
    }
  }
}

void CheckpointLoader::refuse(const std::vector<std::string> &problems) const {
  std::string text;
  for (size_t i = 0; i < std::min(problems.size(), kNamedProblems); ++i)
    text += (i ? "; " : "") + problems[i];
  if (problems.size() > kNamedProblems)
    text +=
        "; and " + std::to_string(problems.size() - kNamedProblems) + " more";
  throw Error(ErrorId::CheckpointMismatch,
              "'" + path +
                  "' is no checkpoint of this model and optimizer: " + text +
                  "; load it into an artifact of the model that wrote "
                  "it, or take weights alone with --weights");
}

void CheckpointLoader::checkModel(const Wanted &wanted) {
  std::vector<std::string> problems;
  std::map<const plan::StateT *, std::string> names;
  for (const auto &[name, state] : wanted)
    if (stored.contains(name))
      names.try_emplace(state, name);
  std::vector<std::string_view> known;
  for (const auto &[name, tensor] : stored)
    known.push_back(name);
  // Another writer's files need not have the optimizer, but not half of it.
  bool hasOptimizer = std::ranges::any_of(states, [&](const SavedState &each) {
    return each.state->role == plan::Role::optimizer &&
           names.contains(each.state);
  });
  bool lacksAverages = false;
  for (const auto &[state, name] : states) {
    auto it = names.find(state);
    if (it == names.end()) {
      bool isNeeded =
          own || (isOfModel(state->role) ? !state->volatile_ : hasOptimizer);
      // What nobody averaged yet begins with the weights that are read.
      if (isAverage(*state)) {
        isNeeded = false;
        lacksAverages = true;
      }
      if (isNeeded && state->role == plan::Role::random && !own)
        isNeeded = false;
      std::string_view near = findNearest(name, known);
      if (isNeeded)
        problems.push_back(
            "it has no '" + name + "'" +
            (near.empty() ? "" : " (but '" + std::string(near) + "')"));
      continue;
    }
    const Stored &tensor = stored.at(it->second);
    std::vector<int64_t> shape = wholeShape(plan, *state);
    if (tensor.shape != shape)
      problems.push_back("'" + name + "' has shape " + toString(tensor.shape) +
                         ", expected " + toString(shape));
    else if (!isConvertible(tensor.dtype, state->dtype))
      problems.push_back("'" + name + "' has element type " +
                         std::string(dtypeName(tensor.dtype)) + ", expected " +
                         std::string(dtypeName(state->dtype)));
    found.insert(state);
  }
  std::set<std::string_view> mine;
  for (const SavedState &each : states)
    mine.insert(each.name);
  if (own)
    for (const ManifestState &state : own->states)
      if (isOfModel(state.role) && !mine.contains(state.name))
        problems.push_back("the model has no '" + state.name + "'");
  if (!problems.empty())
    refuse(problems);
  if (lacksAverages && rank == 0)
    log(LogLevel::info, "'" + path +
                            "' has no averages (ema): they begin as its "
                            "weights");
}

void CheckpointLoader::checkComplete() const {
  std::map<const plan::StateT *, uint64_t> have;
  for (const File &file : files)
    for (const Source &source : file.sources)
      for (const Part &part : ownParts(plan, *source.state, rank))
        have[source.state] +=
            intersect(part.region, source.piece.region).elements();
  for (const plan::StateT *state : found) {
    uint64_t need = 0;
    for (const Part &part : ownParts(plan, *state, rank))
      need += part.region.elements();
    if (have[state] != need)
      throw Error(ErrorId::CheckpointDamaged,
                  "the files of '" + path + "' have " +
                      std::to_string(have[state]) + " of the " +
                      std::to_string(need) + " elements of '" + state->name +
                      "' that rank " + std::to_string(rank) +
                      " needs: a file is missing, or there is one too many");
  }
}

//===----------------------------------------------------------------------===//
// Its bytes
//===----------------------------------------------------------------------===//

/// Reads `count` elements and converts them.
static void readRun(CheckedFile &file, const StoredPiece &piece, uint64_t first,
                    uint64_t count, plan::DType dtype, char *to) {
  constexpr uint64_t kBlockElements = 1 << 18;
  uint64_t element = dtypeBytes(piece.dtype);
  if (piece.dtype == dtype)
    return file.read(piece.offset + first * element, count * element, to);
  std::vector<char> block(std::min(count, kBlockElements) * element);
  for (uint64_t done = 0; done < count;) {
    uint64_t size = std::min(kBlockElements, count - done);
    file.read(piece.offset + (first + done) * element, size * element,
              block.data());
    auto elements = static_cast<int64_t>(size);
    at::from_blob(to + done * dtypeBytes(dtype), {elements},
                  toScalarType(dtype))
        .copy_(
            at::from_blob(block.data(), {elements}, toScalarType(piece.dtype)));
    done += size;
  }
}

void CheckpointLoader::load(const Arenas &arenas) const {
  for (const plan::StateT *state : found)
    if (state->flat < 0)
      arenas.of(*state).fill(state->offset, 0, state->bytes);
  for (const File &file : files) {
    if (file.sources.empty())
      continue;
    CheckedFile opened(file.path, file.seal);
    for (const auto &[state, piece] : file.sources) {
      std::vector<int64_t> strides = contiguousStrides(piece.region.size);
      uint64_t element = dtypeBytes(state->dtype);
      for (const Part &part : ownParts(plan, *state, rank)) {
        Region both = intersect(part.region, piece.region);
        if (both.elements() == 0)
          continue;
        uint64_t from = distance(both, piece.region, strides);
        uint64_t to =
            part.home->offset +
            (part.first + distance(both, part.region, part.strides)) * element;
        forEachRun(both.size, strides, part.strides,
                   [&](uint64_t a, uint64_t b, uint64_t count) {
                     BytesToWrite run(arenas.of(*part.home), to + b * element,
                                      count * element);
                     readRun(opened, piece, from + a, count, state->dtype,
                             run.data());
                     run.flush();
                   });
      }
    }
  }
}

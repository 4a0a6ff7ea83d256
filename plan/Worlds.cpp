//===- Worlds.cpp - One artifact for several numbers of ranks -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Worlds.h"

#include "plan/FileSize.h"
#include "plan/Target.h"
#include "plan/worlds_generated.h"
#include "support/Error.h"
#include "support/ReadOnlyFile.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

using namespace fsdp;

static std::string listRanks(const std::vector<uint64_t> &ranks) {
  std::string text;
  for (uint64_t each : ranks)
    text += (text.empty() ? "" : ", ") + std::to_string(each);
  return text + (ranks == std::vector<uint64_t>{1} ? " rank" : " ranks");
}

static Error makeCorrupted(const std::string &name, const std::string &what) {
  return Error(ErrorId::ArtifactCorrupted, "'" + name +
                                               "' is damaged: " + what +
                                               "; copy or compile it again");
}

bool WorldPlans::areSeveral(std::string_view bytes) {
  return bytes.size() >= 8 &&
         bytes.substr(4, 4) == std::string_view(plan::WorldsIdentifier(), 4);
}

WorldPlans WorldPlans::read(const std::string &path, Trust trust) {
  return fromBytes(readWholeFile(path, "the artifact", kMaxArtifactBytes), path,
                   trust);
}

WorldPlans WorldPlans::fromBytes(std::string_view bytes,
                                 const std::string &name, Trust trust) {
  WorldPlans result;
  result.name = name;
  result.trust = trust;
  if (!areSeveral(bytes)) {
    result.single = PlanFile::fromBytes(bytes, name, trust);
    result.ranks.push_back(getWorldSize(result.single->plan()));
    return result;
  }

  // Memory of its own is aligned for every field.
  auto file = std::make_unique<uint8_t[]>(bytes.size());
  std::memcpy(file.get(), bytes.data(), bytes.size());
  flatbuffers::Verifier verifier(file.get(), bytes.size(), /*max_depth=*/4,
                                 /*max_tables=*/1 << 20);
  // A whole file fills blocks of the artifacts' alignment.
  if (bytes.size() % 16 || !plan::VerifyWorldsBuffer(verifier))
    throw makeCorrupted(name, "what is around its plans does not hold "
                              "together");
  const plan::Worlds *worlds = plan::GetWorlds(file.get());
  if (worlds->version() > kWorldsVersion)
    throw Error(ErrorId::ArtifactNewer,
                "'" + name + "' holds several plans in version " +
                    std::to_string(worlds->version()) + "; this build reads " +
                    std::to_string(kWorldsVersion) +
                    "; use the runtime that came with the compiler that wrote "
                    "it, or compile the model again");
  if (worlds->version() == 0 || !worlds->training() || !worlds->plans() ||
      worlds->plans()->size() < 2)
    throw makeCorrupted(name, "it holds no two plans");
  result.trained = worlds->training()->str();
  for (const plan::WorldPlan *each : *worlds->plans()) {
    if (!each->artifact() ||
        each->world() <= (result.ranks.empty() ? 0 : result.ranks.back()))
      throw makeCorrupted(name, "its plans are not in the order of their "
                                "numbers of ranks");
    result.ranks.push_back(each->world());
    result.artifacts.emplace_back(
        reinterpret_cast<const char *>(each->artifact()->data()),
        each->artifact()->size());
  }
  return result;
}

PlanFile WorldPlans::take(std::optional<uint64_t> world) {
  if (world && !std::ranges::binary_search(ranks, *world))
    throw Error(ErrorId::WorldSizeMismatch,
                "'" + name + "' has a plan for " + listRanks(ranks) + ", and " +
                    listRanks({*world}) + (*world == 1 ? " is" : " are") +
                    " here; start as many as one of them has, or compile with "
                    "--world=" +
                    std::to_string(*world) + " among others");
  if (single)
    return std::move(*single);
  if (!world)
    throw Error(ErrorId::BadUsage,
                "'" + name + "' has plans for " + listRanks(ranks) +
                    ", and nothing says which is meant; start as many "
                    "processes by a launcher, or name one with --world=N");
  auto index =
      static_cast<size_t>(std::ranges::find(ranks, *world) - ranks.begin());
  std::string which = name + "' for '" + std::to_string(*world) + " ranks";
  PlanFile file = PlanFile::fromBytes(artifacts[index], which, trust);
  if (getWorldSize(file.plan()) != *world)
    throw makeCorrupted(name, "its plan for " + listRanks({*world}) +
                                  " is one for " +
                                  listRanks({getWorldSize(file.plan())}));
  if (fingerprintTraining(file.plan()) != trained)
    throw makeCorrupted(name, "its plan for " + listRanks({*world}) +
                                  " trains something else than it states");
  return file;
}

std::string fsdp::joinWorlds(std::span<const std::string> artifacts) {
  if (artifacts.size() == 1)
    return artifacts.front();
  std::vector<std::pair<uint64_t, const std::string *>> plans;
  std::string training;
  for (const std::string &bytes : artifacts) {
    PlanFile file = PlanFile::fromBytes(bytes, "a plan", Trust::own);
    std::string own = fingerprintTraining(file.plan());
    plans.emplace_back(getWorldSize(file.plan()), &bytes);
    if (training.empty())
      training = own;
    if (own != training)
      throw Error(
          ErrorId::BadUsage,
          "the plans for " + listRanks({plans.front().first}) + " and for " +
              listRanks({plans.back().first}) +
              " do not train the same, so one artifact cannot hold both" +
              (file.plan().training->grains
                   ? ""
                   : ": a step has as many batches as ranks; "
                     "'fsdp_config.grains: G' makes it G batches on any "
                     "number of ranks"));
  }
  std::ranges::sort(plans);
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<plan::WorldPlan>> tables;
  for (size_t i = 0; i < plans.size(); ++i) {
    const auto &[world, bytes] = plans[i];
    if (i > 0 && world == plans[i - 1].first)
      throw Error(ErrorId::BadUsage, "two plans are for " + listRanks({world}) +
                                         "; give each number of ranks once");
    builder.ForceVectorAlignment(bytes->size(), 1, 16);
    auto artifact = builder.CreateVector(
        reinterpret_cast<const uint8_t *>(bytes->data()), bytes->size());
    tables.push_back(
        plan::CreateWorldPlan(builder, static_cast<uint32_t>(world), artifact));
  }
  auto own = builder.CreateString(training);
  auto all = builder.CreateVector(tables);
  plan::FinishWorldsBuffer(
      builder, plan::CreateWorlds(builder, kWorldsVersion, own, all));
  return std::string(reinterpret_cast<const char *>(builder.GetBufferPointer()),
                     builder.GetSize());
}

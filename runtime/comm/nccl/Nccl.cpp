//===- Nccl.cpp - Ranks that are processes, each with a GPU ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/nccl/Nccl.h"
#include "runtime/comm/Label.h"
#include "runtime/comm/gloo/Gloo.h"
#include "runtime/comm/nccl/Communicator.h"
#include "runtime/comm/nccl/OneRank.h"
#include "runtime/comm/nccl/Rank.h"
#include "runtime/comm/processes/Processes.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include <unistd.h>

using namespace fsdp;

namespace {

class NcclFabric final : public Fabric {
public:
  NcclFabric(std::shared_ptr<NcclRank> rank, std::unique_ptr<Fabric> host)
      : Fabric(rank->sharedPeers()), shared(std::move(rank)),
        host(std::move(host)) {}

  std::unique_ptr<Communicator>
  createCommunicator(const GroupRanks &group) override;

  std::unique_ptr<Communicator>
  createHostCommunicator(const GroupRanks &group) override {
    return host ? host->createCommunicator(group)
                : Fabric::createHostCommunicator(group);
  }

  std::shared_ptr<Streams> streams() const override {
    return shared->sharedStreams();
  }

  void check() override {
    shared->check([&] { return "rank " + std::to_string(rank()); });
  }

  std::shared_ptr<void> allocateArena(size_t bytes) override;

  void endTransfers(const std::string &) noexcept override {
    shared->interrupt();
  }

private:
  void registerArena(NcclCommunicator &communicator);

  const std::shared_ptr<NcclRank> shared;
  const std::unique_ptr<Fabric> host; ///< for the host's memory
  void *arena = nullptr;              ///< that is registered
  size_t arenaBytes = 0;
};

} // namespace

std::unique_ptr<Communicator>
NcclFabric::createCommunicator(const GroupRanks &group) {
  if (group.ranks.size() == 1)
    return makeOneRankCommunicator(shared->sharedStreams());
  auto communicator = std::make_unique<NcclCommunicator>(
      shared, group, shared->peers().nextKey(group));
  if (arena)
    registerArena(*communicator);
  return communicator;
}

std::shared_ptr<void> NcclFabric::allocateArena(size_t bytes) {
  bool isAsked = isAskedFor("FSDP_NCCL_REGISTER");
  std::string own = isAsked ? std::to_string(bytes) : "none";
  std::vector<std::string> all = exchange("arena", own);
  for (int other = 0; other < worldSize(); ++other)
    if (all[other] != own)
      throw Error(ErrorId::CollectiveMismatch,
                  "rank " + std::to_string(rank()) +
                      ": expected all ranks to register the same bytes of "
                      "memory, found " +
                      own + " here and " + all[other] + " on rank " +
                      std::to_string(other) +
                      "; set FSDP_NCCL_REGISTER on all ranks alike");
  if (!isAsked || worldSize() == 1)
    return nullptr;
  const NcclLibrary &nccl = shared->library();
  if (!nccl.hasWindows()) {
    shared->note("memory is not registered: that needs NCCL 2.27.3 or newer, "
                 "found " +
                 nccl.versionText());
    return nullptr;
  }
  constexpr size_t kUnit = nccl::kWindowAlignment;
  arenaBytes = (bytes + kUnit - 1) / kUnit * kUnit;
  shared->streams().use();
  nccl::Result result = nccl.MemAlloc(&arena, arenaBytes);
  if (result != nccl::Result::success)
    throw Error(ErrorId::OutOfMemory,
                "rank " + std::to_string(rank()) + ": expected " +
                    std::to_string(arenaBytes) +
                    " bytes of memory from ncclMemAlloc, found: " +
                    nccl.describe(result, nullptr));
  std::shared_ptr<void> memory(
      arena, [shared = shared, free = nccl.MemFree](void *address) {
        (void)free(address);
      });
  // Without the list's mutex, which whatever fails needs.
  std::vector<NcclCommunicator *> made;
  shared->forEach([&](NcclCommunicator &each) { made.push_back(&each); });
  for (NcclCommunicator *communicator : made)
    registerArena(*communicator);
  return memory;
}

void NcclFabric::registerArena(NcclCommunicator &communicator) {
  bool took = communicator.registerMemory(arena, arenaBytes);
  std::string group = "group '" + communicator.groupName() + "'";
  shared->note(took ? std::to_string(arenaBytes) +
                          " bytes are registered with " + group +
                          "; what NCCL makes of it, NCCL_DEBUG=INFO says"
                    : "memory is not registered with " + group +
                          ": NCCL cannot share it among these GPUs");
}

std::unique_ptr<Fabric> fsdp::makeNcclFabric(std::shared_ptr<Peers> peers,
                                             const FabricOptions &options,
                                             std::unique_ptr<Fabric> forHost) {
  // NCCL takes ranks for those of several machines by the same variable.
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  const char *named = std::getenv("NCCL_HOSTID");
  std::string own =
      options.streams->place() + " of " + (named && *named ? named : host);
  std::map<std::string, int> holders;
  std::vector<std::string> places = peers->exchange("device", own);
  for (size_t other = 0; other < places.size(); ++other) {
    auto [holder, isFirst] = holders.emplace(places[other], other);
    if (!isFirst)
      throw Error(ErrorId::DeviceFailed,
                  "rank " + std::to_string(peers->rank()) +
                      ": expected a GPU for each rank, found ranks " +
                      std::to_string(holder->second) + " and " +
                      std::to_string(other) + " both on " + places[other] +
                      "; start no more ranks on a machine than it has GPUs, "
                      "or take --backend=local, whose ranks share one");
  }
  auto rank = std::make_shared<NcclRank>(peers, options.streams, options.note);
  if (peers->worldSize() > 1)
    rank->library(); // refuses before anything was loaded
  return std::make_unique<NcclFabric>(std::move(rank), std::move(forHost));
}

std::unique_ptr<Fabric> fsdp::connectNcclFabric(const FabricOptions &options) {
  if (!options.streams)
    throw Error(ErrorId::BadUsage,
                "back end 'nccl' moves tensors between GPUs, and the artifact "
                "was compiled for CPUs; compile it with device: cuda, or use "
                "--backend=gloo");
  std::shared_ptr<Processes> processes = Processes::connect(options);
  return makeNcclFabric(processes, options, makeGlooFabric(processes));
}

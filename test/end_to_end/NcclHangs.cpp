//===- NcclHangs.cpp - A captured step each of whose transfers hangs ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// fsdp-nccl-hangs STEP.fsdp RANK plays one rank of a step on the host, as if it
// ran as a graph, with a library that only records. It does so once for each
// transfer, which never ends, and prints as JSON which one that is, from the
// plan, and the error that is found.
//
//===----------------------------------------------------------------------===//

#include "plan/Instructions.h"
#include "runtime/comm/Label.h"
#include "runtime/comm/nccl/Nccl.h"
#include "runtime/exec/Device.h"
#include "runtime/exec/Executor.h"
#include "runtime/exec/HostDevice.h"
#include "runtime/session/Session.h"
#include "support/Error.h"
#include "test/end_to_end/PlayRank.h"
#include "test/unit/runtime/comm/AlonePeers.h"
#include "test/unit/runtime/comm/NcclOnStreams.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <iostream>
#include <thread>

using namespace fsdp;
using namespace fsdp::test;
using namespace std::chrono_literals;
using nlohmann::json;

static constexpr auto kDeadline = 150ms;

/// The transfers of a program, as errors are to name them.
static std::vector<std::string> labels(const plan::ProgramT &program, int rank,
                                       uint64_t step) {
  std::vector<std::string> all;
  for (const auto &instruction : program.instructions) {
    if (const plan::TransferT *start = transferOf(*instruction))
      all.push_back(describe(rank, {start->kind, start->bucket, step}));
  }
  return all;
}

namespace {

/// The host, which does a step's work while it is recorded as a graph's; then
/// that is launched, with one transfer that hangs.
class CapturingDevice final : public Device {
public:
  CapturingDevice(Fabric &fabric, std::shared_ptr<RecordingStreams> streams,
                  size_t hanging, std::vector<std::string> &transfers)
      : host(makeHostDevice(fabric)), streams(std::move(streams)),
        hanging(hanging), transfers(transfers) {}

  c10::Device torch() const override { return host->torch(); }
  Memory &memory() override { return host->memory(); }
  std::unique_ptr<Copies> makeCopies() override { return host->makeCopies(); }
  Fabric &fabric() override { return host->fabric(); }
  void rehearse(Executor &executor) override { host->rehearse(executor); }
  std::unique_ptr<Instruction> prepareDraw(Preparation &,
                                           const plan::DrawT &) override {
    return nullptr;
  }
  double readNumber(const at::Tensor &tensor) override {
    return host->readNumber(tensor);
  }

  void run(Executor &executor, uint64_t step, ProfileRecorder *) override {
    if (step == 0)
      return executor.run(step);
    streams->beginCapture();
    executor.run(step);
    RecordingStreams::Graph graph = streams->endCapture();
    const Transfers &communicators = executor.transfers();
    communicators.launchCaptured(communicators.keepCaptured(), step);
    streams->launch(graph, {findCall(graph)});
    transfers = labels(executor.source(), fabric().rank(), step);
  }

private:
  /// Of the transfer, behind the first of its two counts.
  size_t findCall(const RecordingStreams::Graph &graph) const {
    std::vector<RecordingStreams::Work> all = streams->all();
    size_t counts = 0;
    for (size_t work = graph.begin; work < graph.end; ++work)
      if (all[work].what == "raise" && counts++ == 2 * hanging)
        return work + 1;
    throw std::logic_error("there are fewer transfers");
  }

  const std::unique_ptr<Device> host;
  const std::shared_ptr<RecordingStreams> streams;
  const size_t hanging;
  std::vector<std::string> &transfers;
};

} // namespace

/// What is found where that transfer hangs; `transfers` are the step's.
static std::string runStep(const PlanFile &plan, const std::string &path,
                           int rank, int world, size_t hanging,
                           std::vector<std::string> &transfers) {
  NcclScript &script = useFakeNccl(FSDP_FAKE_NCCL);
  auto streams = std::make_shared<RecordingStreams>();
  playOn(script, streams);
  auto peers = std::make_shared<AlonePeers>(rank, world, kDeadline);
  for (int other = 0; other < world; ++other)
    if (other != rank)
      peers->absent.push_back(other);
  FabricOptions options;
  options.worldSize = world;
  options.streams = streams;
  auto fabric = makeNcclFabric(peers, options);
  SessionOptions session;
  session.dataPath = "sample";
  session.artifactFolder = std::filesystem::path(path).parent_path().string();
  session.makeDevice = [&](Fabric &connection) {
    return std::make_unique<CapturingDevice>(connection, streams, hanging,
                                             transfers);
  };
  std::string found = "nothing";
  {
    Session own(plan, *fabric, session);
    own.step();
    try {
      own.step();
      for (auto end = std::chrono::steady_clock::now() + 20s;
           std::chrono::steady_clock::now() < end;
           std::this_thread::sleep_for(2ms))
        fabric->check();
    } catch (const Error &error) {
      found = error.what();
    }
  }
  return found;
}

int main(int argc, char **argv) {
  return playRank(
      argc, argv, "fsdp-nccl-hangs",
      [](const PlanFile &plan, const std::string &path, int rank, int world) {
        json all = json::array();
        std::vector<std::string> transfers;
        for (size_t i = 0; i == 0 || i < transfers.size(); ++i) {
          std::string found = runStep(plan, path, rank, world, i, transfers);
          all.push_back({{"hangs", transfers.at(i)}, {"found", found}});
        }
        std::cout << all << "\n";
      });
}

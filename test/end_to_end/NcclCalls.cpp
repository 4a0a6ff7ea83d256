//===- NcclCalls.cpp - What a step asks of NCCL, without a GPU ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// fsdp-nccl-calls STEP.fsdp RANK plays one rank of a step, on the host and with
// a library that records what NCCL is asked for, and prints it as JSON. The
// same step with the back end `fake` must give the same bits.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/fake/Fake.h"
#include "runtime/comm/nccl/Nccl.h"
#include "runtime/exec/Device.h"
#include "runtime/exec/HostDevice.h"
#include "runtime/session/Session.h"
#include "test/end_to_end/PlayRank.h"
#include "test/unit/runtime/comm/AlonePeers.h"
#include "test/unit/runtime/comm/NcclOnStreams.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <iostream>

using namespace fsdp;
using namespace fsdp::test;
using nlohmann::json;

static StepResult runStep(const PlanFile &plan, Fabric &fabric,
                          const std::string &path) {
  SessionOptions options;
  options.dataPath = "sample";
  options.artifactFolder = std::filesystem::path(path).parent_path().string();
  // The library only records: what it is given may be the host's.
  options.makeDevice = [](Fabric &fabric) { return makeHostDevice(fabric); };
  Session session(plan, fabric, options);
  session.step();
  return session.step();
}

static json printCalls(const NcclScript &script,
                       const std::map<StreamHandle, std::string> &names) {
  json all = json::array();
  for (const NcclCall &call : script.calls) {
    bool aligned = true;
    for (const void *pointer : {call.send, (const void *)call.receive})
      aligned &= reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
    bool isWhole = call.name == "ncclAllReduce";
    all.push_back({{"name", call.name},
                   {"on", names.at(call.stream)},
                   {"comm", call.comm},
                   {"ranks", call.ranks},
                   {"bytes", call.bytes() * (isWhole ? 1 : call.ranks)},
                   {"aligned", aligned && call.bytes() % 16 == 0},
                   {"group", call.group}});
  }
  return all;
}

static void play(const PlanFile &plan, const std::string &path, int rank,
                 int world) {
  FakeFabric fake(rank, world);
  StepResult expected = runStep(plan, fake, path);

  NcclScript &script = useFakeNccl(FSDP_FAKE_NCCL);
  auto streams = std::make_shared<RecordingStreams>();
  script.ranksAreAlike = true; // as those of the other back end
  std::map<StreamHandle, std::string> names;
  playOn(script, streams);
  script.observer = [&, put = script.observer](const NcclCall &call) {
    put(call);
    names[call.stream] = streams->name(call.stream);
  };
  FabricOptions options;
  options.worldSize = world;
  options.streams = streams;
  std::vector<std::string> notes;
  options.note = [&](const std::string &note) { notes.push_back(note); };
  auto fabric =
      makeNcclFabric(std::make_shared<AlonePeers>(rank, world), options);
  StepResult found = runStep(plan, *fabric, path);
  script.observer = nullptr;

  json collectives = json::array();
  for (const CollectiveCount &each : found.collectives)
    collectives.push_back({{"kind", each.kind},
                           {"group", each.group},
                           {"count", each.count},
                           {"bytes", each.bytes}});
  bool same = found.loss == expected.loss &&
              found.gradNorm == expected.gradNorm && found.loss.has_value();
  std::cout << json{{"same", same},
                    {"loss", found.loss.value_or(0)},
                    {"calls", printCalls(script, names)},
                    {"collectives", collectives},
                    {"destroyed", script.destroyed},
                    {"aborted", script.aborted},
                    {"notes", notes}}
            << "\n";
}

int main(int argc, char **argv) {
  return playRank(argc, argv, "fsdp-nccl-calls", play);
}

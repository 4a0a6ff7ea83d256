//===- Races.cpp - What nothing orders in a run, without a GPU ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// fsdp-races STEP.fsdp DATA STEPS trains as a user does, validates, and saves
// while it trains; on the host, and then in several ways on a device that the
// host plays (FarDevice.h): as single launches and as graphs, as late as it may
// be, and at random. fsdp-races STEP.fsdp DATA STEPS nccl gives each
// rank a device, and a library that stands for NCCL; `single` leaves graphs
// out; an artifact for GPUs (`gpu`) is compared with that device at its
// fastest, in place of the host. Prints as JSON, for each
// way, the accesses that nothing orders, whether all numbers are those of the
// host, and how often the driver launched kernels of our own. Of several DATA,
// with commas between them, each is one step's inputs in turn. fsdp-races
// STEP.fsdp DATA STEPS faults trains many times, each time with one wait less,
// or with a plan that lets go of memory too early, and counts what is found.
//
//===----------------------------------------------------------------------===//

#include "GivenInputs.h"
#include "runtime/launch/Launch.h"
#include "runtime/session/Session.h"
#include "runtime/train/Checkpointer.h"
#include "support/Error.h"
#include "test/unit/runtime/TemporaryFolder.h"
#include "test/unit/runtime/cuda/FakeDriver.h"
#include "test/unit/runtime/cuda/FarDevice.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>
#include <string_view>

using namespace fsdp;
using namespace fsdp::test;
using nlohmann::json;

namespace {

/// All numbers of a run, for comparison.
struct Outcome {
  std::string losses;  ///< bits as text
  std::string weights; ///< of the exported file
  bool operator==(const Outcome &) const = default;
};

std::string readAll(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Trains, and writes down what came of it.
class Training {
public:
  /// `files`: those that the steps take their inputs from in turn; none: the
  /// session's data.
  explicit Training(int steps, std::vector<std::string> files = {})
      : steps(steps), files(std::move(files)) {}

  void operator()(Session &session) {
    std::stringstream text;
    text << std::hexfloat;
    Checkpointer checkpointer(session,
                              {.folder = folder.path() + "/saved", .every = 1});
    for (int i = 0; i < steps; ++i) {
      if (!files.empty())
        setInputs(session, SafetensorsFile(files[i % files.size()]));
      StepResult result = session.step();
      checkpointer.afterStep();
      text << result.loss.value_or(0) << " " << result.gradNorm.value_or(0)
           << "\n";
      if (session.canEvaluate())
        text << "eval " << session.evaluate().loss << "\n";
    }
    checkpointer.finish();
    session.exportWeights(path());
    if (session.rank() == 0)
      losses = text.str();
  }

  Outcome outcome() const { return {losses, readAll(path())}; }

private:
  std::string path() const { return folder.path() + "/final.safetensors"; }

  const int steps;
  const std::vector<std::string> files;
  TemporaryFolder folder;
  std::string losses;
};

struct Way {
  const char *name;
  FarOptions options;
};

/// Where there are graphs, they are late, and single launches at random:
/// what orders both is the same, and each way takes its time.
std::vector<Way> listWays(bool isSingle) {
  using Kind = Lateness::Kind;
  auto way = [](const char *name, Kind kind, uint64_t seed, bool graphs) {
    FarOptions options;
    options.lateness = {kind, seed};
    options.graphs = graphs;
    return Way{name, options};
  };
  const Way random = way("at random", Kind::random, 1, false);
  if (isSingle)
    return {way("late", Kind::most, 0, false), random};
  return {random, way("graphs, late", Kind::most, 0, true),
          way("graphs, at random", Kind::random, 2, true)};
}

json print(const char *name, const FarReport &report, const Outcome &outcome,
           bool isSame, uint64_t kernels) {
  return {{"way", name},
          {"losses", outcome.losses},
          {"error", report.error},
          {"races", report.races},
          {"compared", report.compared},
          {"launches", report.launches},
          {"kernels", kernels},
          {"same", isSame}};
}

json playAll(const LaunchOptions &launched, int steps,
             const std::vector<std::string> &files, bool isNccl, bool isSingle,
             bool isForGpus) {
  Training onHost(steps, files);
  // The host itself does not run what is for GPUs.
  if (isForGpus)
    if (FarReport report = launchFar(launched, {}, std::ref(onHost));
        !report.error.empty())
      throw Error(ErrorId::DeviceFailed, report.error);
  if (!isForGpus)
    launch(launched, std::ref(onHost));
  json all = json::array();
  std::vector<Way> ways = listWays(isSingle);
  if (isNccl && !isSingle)
    ways.pop_back(); // ranks' threads are seldom alike anyway
  for (const Way &way : ways) {
    Training training(steps, files);
    const uint64_t before = FakeDriver::launchCount();
    FarReport report =
        isNccl ? launchFarNccl(launched, way.options, FSDP_FAKE_NCCL,
                               std::ref(training))
               : launchFar(launched, way.options, std::ref(training));
    Outcome outcome = training.outcome();
    all.push_back(print(way.name, report, outcome, outcome == onHost.outcome(),
                        FakeDriver::launchCount() - before));
  }
  return all;
}

/// Of `count` faults some that lie apart, the first and the last among them.
std::vector<uint64_t> choose(uint64_t count) {
  constexpr uint64_t kMost = 40;
  std::vector<uint64_t> numbers;
  for (uint64_t i = 0; i < std::min(count, kMost); ++i)
    numbers.push_back(count <= kMost ? i + 1
                                     : 1 + i * (count - 1) / (kMost - 1));
  return numbers;
}

/// Device memory is used again while a copy to the host still reads it: the
/// program waits for such copies at its end.
void endLifetimesEarly(plan::PlanT &plan) {
  for (auto &program : plan.programs) {
    std::set<uint32_t> downloads;
    for (const auto &instruction : program->instructions)
      if (const auto *copy = instruction->body.AsCopyAcross();
          copy && copy->to == plan::MemorySpace::host)
        downloads.insert(copy->future);
    std::ranges::stable_partition(
        program->instructions, [&](const auto &instruction) {
          const auto *wait = instruction->body.AsWait();
          return !wait || !downloads.count(wait->future);
        });
  }
}

/// The host takes the copy that was waited for last for the one that was
/// started last.
class RashCopies final : public Copies {
public:
  explicit RashCopies(std::shared_ptr<Streams> onDevice)
      : streams(std::move(onDevice)),
        upload(streams->createStream(StreamPriority::normal, "upload")),
        download(streams->createStream(StreamPriority::normal, "download")),
        issued(streams->createEvent()) {}

  Slot reserve(plan::Stream stream) override {
    slots.push_back({stream == plan::Stream::download, streams->createEvent()});
    return static_cast<Slot>(slots.size() - 1);
  }
  void start(Slot slot, std::span<const Part> parts) override {
    auto [isDownload, done] = slots[slot];
    StreamHandle stream = isDownload ? download : upload;
    streams->record(issued, streams->compute());
    streams->wait(stream, issued);
    for (const Part &part : parts)
      if (isDownload)
        streams->download(part.to, part.from, part.bytes, stream);
      else
        streams->upload(part.to, part.from, part.bytes, stream);
    streams->record(done, stream);
  }
  void wait(Slot slot) override {
    auto [isDownload, done] = slots[slot];
    streams->wait(streams->compute(), done);
    (isDownload ? lastDownload : lastUpload) = done;
  }
  void join() override {
    for (EventHandle *last : {&lastUpload, &lastDownload})
      if (EventHandle event = std::exchange(*last, nullptr))
        streams->synchronize(event, Streams::Clock::now());
  }

private:
  const std::shared_ptr<Streams> streams;
  const StreamHandle upload, download;
  const EventHandle issued;
  std::vector<std::pair<bool, EventHandle>> slots;
  EventHandle lastUpload = nullptr, lastDownload = nullptr;
};

/// What is found of runs in each of which one thing goes wrong.
json plantFaults(const LaunchOptions &launched, int steps) {
  using Kind = PlantedFault::Kind;
  Training right(steps);
  FarOptions judged;
  judged.judges = true;
  FarReport whole = launchFar(launched, judged, std::ref(right));
  json all = json::object();
  for (const auto &[need, waits] : whole.needs)
    all["waits"][need == WaitNeed::needed    ? "needed"
                 : need == WaitNeed::implied ? "implied"
                                             : "idle"] = waits;
  auto plant = [&](const char *name, const std::vector<uint64_t> &numbers,
                   Kind kind, const std::function<void(plan::PlanT &)> &change,
                   bool isRash = false) {
    uint64_t reported = 0, wrong = 0, silent = 0, ofOperands = 0;
    std::map<WaitNeed, uint64_t> needs;
    uint64_t misjudged = 0;
    std::string example;
    for (uint64_t number : numbers) {
      FarOptions options;
      options.lateness = {Lateness::Kind::random, number};
      options.fault = {kind, number};
      options.judges = kind != Kind::none;
      if (isRash)
        options.makeCopies = [](std::shared_ptr<Streams> streams) {
          return std::make_unique<RashCopies>(std::move(streams));
        };
      Training training(steps);
      FarReport report =
          launchFar(launched, options, std::ref(training), change);
      // What is not named changes the order of nothing that conflicts.
      if (report.planted) {
        ++needs[*report.planted];
        misjudged +=
            report.races.empty() == (*report.planted == WaitNeed::needed);
      }
      bool isWrong =
          !report.error.empty() || !(training.outcome() == right.outcome());
      reported += !report.races.empty();
      wrong += isWrong;
      silent += isWrong && report.races.empty();
      for (const std::string &race : report.races)
        ofOperands += race.find("of its temporaries") == std::string::npos;
      if (example.empty() && !report.races.empty())
        example = report.races.front();
    }
    all[name] = {{"tried", numbers.size()},
                 {"reported", reported},
                 {"wrong", wrong},
                 {"silent", silent},
                 {"needed", needs[WaitNeed::needed]},
                 {"implied", needs[WaitNeed::implied]},
                 {"idle", needs[WaitNeed::idle]},
                 {"misjudged", misjudged},
                 {"of operands", ofOperands},
                 {"example", example}};
  };
  plant("none", {1}, Kind::none, nullptr);
  plant("missing wait", choose(whole.waits), Kind::missingWait, nullptr);
  plant("stale wait", choose(whole.waits), Kind::staleWait, nullptr);
  plant("missing sync", choose(whole.syncs), Kind::missingSync, nullptr);
  plant("stray kernel", choose(whole.kernels), Kind::strayKernel, nullptr);
  plant("early free", {1}, Kind::none, endLifetimesEarly);
  plant("last waited for", {1, 2, 3}, Kind::none, nullptr, /*isRash=*/true);
  return all;
}

} // namespace

int main(int argc, char **argv) {
  std::set<std::string_view> words(argv + std::min(argc, 4), argv + argc);
  if (argc < 4) {
    std::fprintf(stderr,
                 "usage: fsdp-races STEP.fsdp DATA STEPS [nccl] [single] [gpu] "
                 "[faults]\n");
    return 2;
  }
  try {
    LaunchOptions launched;
    launched.artifact = argv[1];
    std::vector<std::string> files;
    std::stringstream named(argv[2]);
    for (std::string file; std::getline(named, file, ',');)
      files.push_back(file);
    if (files.size() == 1) {
      launched.session.dataPath = files[0];
      files.clear();
    }
    launched.backend = "local";
    launched.threads = 1;
    launched.flightRecords.clear();
    // What nobody wrote is not to be read, either.
    launched.session.poison = true;
    int steps = std::atoi(argv[3]);
    std::cout << (words.count("faults")
                      ? plantFaults(launched, steps)
                      : playAll(launched, steps, files, words.count("nccl"),
                                words.count("single"), words.count("gpu")))
              << "\n";
  } catch (const Error &error) {
    std::fprintf(stderr, "%s\n", error.format().c_str());
    return error.exitStatus();
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

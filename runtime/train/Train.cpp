//===- Train.cpp - The training loop --------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/train/Train.h"

#include "runtime/comm/Communicator.h"
#include "runtime/flights/FlightSignal.h"
#include "runtime/launch/Termination.h"
#include "runtime/log/Log.h"
#include "runtime/session/RunOption.h"
#include "runtime/states/Averages.h"
#include "runtime/states/Export.h"
#include "runtime/states/ExportedStates.h"
#include "runtime/states/MergedStates.h"
#include "runtime/train/BestLoss.h"
#include "runtime/train/Evaluation.h"
#include "runtime/train/Metrics.h"
#include "runtime/train/OutputFile.h"
#include "runtime/train/Profiler.h"
#include "runtime/train/Progress.h"
#include "support/Error.h"
#include "support/Format.h"
#include "support/OutputPath.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>

#include <unistd.h>

using namespace fsdp;

using Clock = std::chrono::steady_clock;

/// Better refused now than after hours of training.
static void checkWritable(const std::string &name) {
  std::error_code code;
  bool isFolder =
      name.ends_with('/') || std::filesystem::is_directory(name, code);
  OutputPath output{name};
  if (!isFolder)
    output = findOutput(name);
  if (output.isStream)
    return;
  const std::string &path = output.path;
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  // One that an export makes itself.
  if (path.ends_with('/') && !std::filesystem::exists(folder))
    folder = folder.parent_path();
  if (folder.empty())
    folder = ".";
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    throw Error(
        ErrorId::FileNotWritable,
        "'" + name + "' cannot be written: folder '" + folder.string() +
            "': " + std::error_code(errno, std::generic_category()).message());
}

/// What the run will take: less than was asked for where the data ends.
static uint64_t countSteps(const Session &session, uint64_t total) {
  bool isUntilEnd = total == kUntilDataEnds;
  uint64_t wanted = total - std::min(total, session.stepsDone());
  std::optional<uint64_t> left = session.stepsLeft();
  if (isUntilEnd)
    return *left;
  if (!left || *left >= wanted)
    return wanted;
  uint64_t done = session.stepsDone();
  if (session.rank() == 0)
    log(LogLevel::warning, "the data's epochs end after " +
                               std::to_string(done + *left) +
                               " steps, before the " +
                               std::to_string(done + wanted) + " of --steps");
  return *left;
}

static void printSummary(const Session &session, uint64_t steps,
                         const StepResult &first, const StepResult &last,
                         double seconds) {
  if (steps == 0)
    return;
  MemoryUse memory = session.memory();
  std::printf("%llu steps on %d ranks in %.1f s: ",
              static_cast<unsigned long long>(steps), session.worldSize(),
              seconds);
  if (session.isTraining())
    std::printf("loss %.4f -> %.4f\n", first.loss.value_or(0),
                last.loss.value_or(0));
  else
    std::printf("%.1f samples/s\n",
                static_cast<double>(session.samplesPerStep()) *
                    static_cast<double>(steps) / seconds);
  if (memory.scratchBound)
    std::printf("peak memory a rank: predicted %s (%s tensors, at most %s "
                "scratch)\n",
                formatBytes(memory.arena + *memory.scratchBound).c_str(),
                formatBytes(memory.arena).c_str(),
                formatBytes(*memory.scratchBound).c_str());
  else
    std::printf("peak memory a rank: predicted %s of tensors; scratch was "
                "unknown until the warm-up\n",
                formatBytes(memory.arena).c_str());
  std::printf(
      "                    measured  %s (%s tensors, %s scratch, %s "
      "staging)\n",
      formatBytes(memory.arena + memory.scratch + memory.staging).c_str(),
      formatBytes(memory.arena).c_str(), formatBytes(memory.scratch).c_str(),
      formatBytes(memory.staging).c_str());
  if (memory.host)
    std::printf("                    beside the device %s on the host\n",
                formatBytes(memory.host).c_str());
}

namespace {
/// What of the model is written at the end, and where that stands.
struct ExportOption {
  const char *name;
  std::string TrainOptions::*path;
  Exported what;
};
constexpr ExportOption kExportOptions[] = {
    {"--export", &TrainOptions::exportPath, Exported::All},
    {"--export-trained", &TrainOptions::exportTrainedPath, Exported::Trained},
    {"--export-merged", &TrainOptions::exportMergedPath, Exported::Merged},
    {"--export-ema", &TrainOptions::exportEmaPath, Exported::Averaged},
};
} // namespace

/// What of the run's files is not there because it ended early.
static void reportTermination(const Session &session,
                              const TrainOptions &options, uint64_t lastStep) {
  std::string text = std::string(Termination::signalName()) +
                     ": stopped after " + std::to_string(session.stepsDone()) +
                     " of " + std::to_string(lastStep) + " steps; ";
  text += options.checkpoints.folder.empty()
              ? "nothing was saved, since no --save=DIR says where"
              : "what is in '" + options.checkpoints.folder +
                    "' goes on with --load=latest";
  for (const ExportOption &each : kExportOptions)
    if (!(options.*each.path).empty())
      text += "; " + std::string(each.name) + " was not written";
  if (!options.outputsPath.empty())
    text += "; --outputs was not written";
  log(LogLevel::warning, text);
}

/// Where nobody validates there is no best one.
static bool looksForBest(const Session &session, const TrainOptions &options) {
  bool keepsBest = options.checkpoints.keepsBest;
  if (options.evalOnly || (!keepsBest && options.patience == 0))
    return false;
  if (!session.canEvaluate())
    throw Error(ErrorId::BadUsage,
                std::string(keepsBest ? "--keep-best" : "--patience") +
                    " goes by the loss in validation, and the artifact has no "
                    "program or no data for one; compile it with eval: {data: "
                    "…} in the config");
  return true;
}

static void reportEnd(const BestLoss &best, uint64_t steps) {
  std::string text = "stopped after step " + std::to_string(steps) + ": " +
                     std::to_string(best.countWithoutGain()) +
                     " validations in a row found no loss ";
  if (const Validated *least = best.best())
    text += "below " + std::to_string(least->loss) + " of step " +
            std::to_string(least->step);
  else
    text += "that is a number";
  log(LogLevel::warning, text);
}

/// Of a run that goes on from a checkpoint and takes so many steps of `total`.
static void reportBegin(const Session &session, const TrainOptions &options,
                        uint64_t total, uint64_t steps) {
  std::string done = std::to_string(session.stepsDone());
  std::fprintf(stderr, "continuing after step %s of '%s'\n", done.c_str(),
               session.loadedFrom().c_str());
  if (steps != 0 || total == 0 || options.evalOnly)
    return;
  std::string reason = total > session.stepsDone()
                           ? "the data's epochs end there"
                           : "--steps=" + std::to_string(total) +
                                 " counts the whole training, of which " +
                                 done + " are done";
  std::fprintf(stderr, "nothing to train: %s\n", reason.c_str());
}

namespace {

/// The loop of one rank, and all that watches it.
class TrainLoop {
public:
  /// `total`: steps of the whole training; `checkpointer` may be null.
  TrainLoop(Session &session, const TrainOptions &options, uint64_t total,
            Checkpointer *checkpointer);

  void run() {
    begin = last = Clock::now();
    for (; taken < steps; ++taken) {
      if (isTerminated())
        return;
      if (isWithoutGain())
        break;
      if (profiler)
        profiler->beginStep(taken);
      StepResult result = takeStep();
      report(result);
      if (checkpointer)
        checkpointer->afterStep();
      if (evaluation->isDue(result.step + 1, isLast()))
        validate(result.step + 1);
      if (taken == 0)
        firstResult = result;
      lastResult = std::move(result);
    }
    if (options.evalOnly)
      evaluation->run(done);
    finish();
  }

private:
  bool isLast() const { return taken + 1 == steps; }
  /// Whether a signal ends the run here.
  bool isTerminated();
  bool isWithoutGain();
  StepResult takeStep();
  void report(const StepResult &result);
  void validate(uint64_t step);
  void finish();
  void exportAll();

  Session &session;
  const TrainOptions &options;
  Checkpointer *const checkpointer;
  const bool isFirst;
  const uint64_t done, steps;
  // Those that were not asked for, or are another rank's, are absent.
  std::optional<Metrics> metrics;
  std::optional<Evaluation> evaluation; ///< is there
  std::optional<BestLoss> best;
  std::optional<OutputFile> outputs;
  std::optional<Profiler> profiler;
  std::optional<Throughput> throughput; ///< is there
  std::optional<Progress> progress;
  std::optional<Monitors> monitors;
  std::optional<Termination> termination;
  StepResult firstResult, lastResult;
  uint64_t taken = 0;
  Clock::time_point begin, last; ///< of the run; of the last step's end
};

TrainLoop::TrainLoop(Session &session, const TrainOptions &options,
                     uint64_t total, Checkpointer *checkpointer)
    : session(session), options(options), checkpointer(checkpointer),
      isFirst(session.rank() == 0), done(session.stepsDone()),
      steps(countSteps(session, total)) {
  if (isFirst && done != 0)
    reportBegin(session, options, total, steps);
  if (!options.metricsPath.empty())
    metrics.emplace(session, options.metricsPath);
  evaluation.emplace(session, options.evalEvery, metrics ? &*metrics : nullptr);
  if (looksForBest(session, options))
    best.emplace(session, options.checkpoints.keepsBest
                              ? options.checkpoints.folder
                              : "");
  if (!options.outputsPath.empty())
    outputs.emplace(session, options.outputsPath,
                    steps * session.microBatches());
  if (!options.profilePath.empty() && steps != 0)
    profiler.emplace(session, options.profilePath,
                     parseProfileSteps(options.profileSteps, steps));
  throughput.emplace(session, steps, options.peakFlops);
  if (isFirst) {
    progress.emplace(done + steps, done);
    monitors.emplace(options.monitors, done);
  }
  if (session.isTraining())
    termination.emplace(session.fabric());
  else
    TerminationSignals::release();
}

bool TrainLoop::isTerminated() {
  if (!termination || !termination->isDue(session.stepsDone()))
    return false;
  if (checkpointer)
    checkpointer->finish();
  if (isFirst)
    reportTermination(session, options, done + steps);
  return true;
}

bool TrainLoop::isWithoutGain() {
  if (!best || options.patience == 0 ||
      best->countWithoutGain() < options.patience)
    return false;
  if (isFirst)
    reportEnd(*best, done + taken);
  return true;
}

StepResult TrainLoop::takeStep() {
  while (true) {
    std::optional<StepResult> made = session.microBatch();
    if (made)
      return std::move(*made);
    if (outputs)
      outputs->append();
  }
}

void TrainLoop::report(const StepResult &result) {
  Clock::time_point now = Clock::now();
  double seconds = std::chrono::duration<double>(now - last).count();
  if (profiler)
    profiler->endStep(taken, last, now);
  last = now;
  if (outputs)
    outputs->append();
  StepReport report = throughput->report(result, seconds);
  if (metrics)
    metrics->write(report, isLast());
  if (monitors)
    monitors->write(report);
  if (progress)
    progress->update(report);
  // No step's time holds that of writing the profile.
  if (profiler && profiler->finishStep(taken))
    last = Clock::now();
}

void TrainLoop::validate(uint64_t step) {
  evaluation->run(step);
  if (monitors)
    monitors->write(*evaluation->last(), step);
  bool isBest = best && best->add(step, evaluation->last()->loss);
  if (isBest && checkpointer && options.checkpoints.keepsBest)
    checkpointer->save();
  last = Clock::now();
}

void TrainLoop::finish() {
  if (outputs)
    outputs->commit();
  if (checkpointer)
    checkpointer->finish();
  exportAll();
  if (!isFirst)
    return;
  double seconds = std::chrono::duration<double>(last - begin).count();
  printSummary(session, taken, firstResult, lastResult, seconds);
  evaluation->printSummary();
  if (profiler)
    std::printf("%s", profiler->summary().c_str());
}

void TrainLoop::exportAll() {
  for (const ExportOption &each : kExportOptions)
    if (const std::string &path = options.*each.path; !path.empty())
      session.exportWeights(path, options.exportShardBytes,
                            each.what == Exported::Trained
                                ? std::vector<std::string>()
                                : options.exportWithout,
                            each.what);
}

} // namespace

static void trainRank(Session &session, const TrainOptions &options,
                      uint64_t total) {
  std::optional<Checkpointer> checkpointer;
  if (!options.checkpoints.folder.empty())
    checkpointer.emplace(session, options.checkpoints);
  try {
    // Better refused now than after hours of training.
    if (!options.exportMergedPath.empty())
      listMerged(session.plan());
    if (!options.exportEmaPath.empty())
      checkAverages(session.plan());
    checkLeftOut(session.plan(), options.exportWithout);
    TrainLoop(session, options, total, checkpointer ? &*checkpointer : nullptr)
        .run();
  } catch (const std::exception &error) {
    // All ranks are fine but for their numbers: those of the steps before are
    // worth being kept.
    auto *own = dynamic_cast<const Error *>(&error);
    if (checkpointer && own && own->id() == ErrorId::NotFinite)
      checkpointer->wait();
    // The other ranks' writers, which this one's waits for, may never come.
    session.fabric().abort(error.what());
    throw;
  }
}

static std::vector<RunFact> collectFacts(TrainOptions options) {
  TrainOptions unset;
  std::vector<RunFact> facts;
#define FSDP_TRAIN_OPTION(name, member, value, agreed, ...)                    \
  addFact(facts, name, pointTo(options.member), pointTo(unset.member),         \
          Agreed::agreed);
#include "runtime/session/RunOptions.def"
  return facts;
}

void fsdp::train(const LaunchOptions &launchOptions,
                 const TrainOptions &options) {
  LaunchOptions asked = launchOptions;
  // What takes no step reads nothing, as a run that only exports a checkpoint.
  const uint64_t total = asked.session.steps.value_or(0);
  asked.session.needsData = total != 0 && !options.evalOnly &&
                            launchOptions.session.checkpointPath.empty();
  asked.session.agreed = collectFacts(options);
  asked.check = [&](int rank) {
    // The one that writes them.
    if (rank != 0)
      return;
    if (!options.metricsPath.empty())
      findOutput(options.metricsPath);
    for (const ExportOption &each : kExportOptions)
      if (!(options.*each.path).empty())
        checkWritable(options.*each.path);
    for (const std::string &path : {options.outputsPath, options.profilePath})
      if (!path.empty())
        checkWritable(path);
  };
  FlightSignal flightSignal;
  TerminationSignals signals;
  asked.signals = &signals;
  try {
    launch(asked,
           [&](Session &session) { trainRank(session, options, total); });
  } catch (const Error &) {
    TerminationSignals::obey();
    throw;
  }
}

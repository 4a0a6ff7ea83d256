//===- Options.cpp - The command line of fsdp-run -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-run/Options.h"

#include "plan/Version.h"
#include "runtime/log/Log.h"
#include "runtime/session/CudaLoader.h"
#include "runtime/train/Profiler.h"
#include "support/Error.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <string_view>
#include <utility>
#include <vector>

using namespace fsdp;

static constexpr const char *kExamples = R"(Examples:
  fsdp-run step.fsdp --steps=100 --data=train.safetensors
      all ranks as threads of this process
  torchrun --no-python --nproc-per-node=4 fsdp-run step.fsdp --steps=100 --data=train.safetensors
      one process a rank, over gloo; mpirun and srun work alike
  RANK=0 WORLD_SIZE=2 fsdp-run step.fsdp --steps=9 --data=sample --rendezvous=tcp://host:29500
      by hand, once for each rank
  fsdp-run step.fsdp --steps=500 --data=d.bin --lr=3e-4 --lr-schedule=cosine:warmup=50
      another learning rate without compiling again
  fsdp-run step.fsdp --dry-run
      memory and collectives of any world size on this machine
  fsdp-run step.fsdp --steps=100 --data=d.bin --metrics=m.jsonl --export=final.safetensors
      a line of JSON a step, and the trained weights for PyTorch
  fsdp-run step.fsdp --steps=10000 --data=d.bin --save=ck --save-every=500 --keep=3 --load=latest
      checkpoints; the same command again continues from the newest
  fsdp-run step.fsdp --steps=20 --data=d.bin --profile=trace.json
      where the time goes, for the eye and as a table
  fsdp-run --compare-records=flight-records
      after a run that hung: which rank was behind, and where in the model
  fsdp-run --calibrate=here.yaml
      measures this machine, for predictions of fsdp-opt --cluster=here.yaml
  fsdp-run infer.fsdp --steps=50 --data=test.safetensors --outputs=o.safetensors
      what the model returns for each row of the data)";

/// "none, cores or threads".
template <typename Choices>
static std::string listNames(const Choices &choices) {
  std::string text;
  for (size_t i = 0; i < choices.size(); ++i)
    text += (i == 0                   ? ""
             : i + 1 < choices.size() ? ", "
                                      : " or ") +
            std::string(choices[i].first);
  return text;
}

/// CLI::CheckedTransformer would take the enumerators' numbers, too, and print
/// them in --help and in errors.
template <typename T>
static CLI::Option *
addChoice(CLI::App &app, const std::string &name, T &value,
          const std::vector<std::pair<std::string_view, T>> &choices,
          const std::string &description) {
  auto set = [name, &value, choices](const std::string &chosen) {
    auto found = std::ranges::find(
        choices, chosen, [](const auto &choice) { return choice.first; });
    if (found == choices.end())
      throw CLI::ValidationError(name, "expected " + listNames(choices) +
                                           ", found '" + chosen + "'");
    value = found->second;
  };
  return app.add_option_function<std::string>(name, set, description);
}

static void addData(CLI::App &app, RunOptions &options) {
  LaunchOptions &launch = options.launch;
  SessionOptions &session = options.launch.session;
  TrainOptions &train = options.train;
  app.add_option("PLAN", launch.artifact, "the artifact, step.fsdp");
  app.add_option("--steps", train.steps,
                 "optimizer steps of the whole training, those "
                 "of a checkpoint too; default: until the "
                 "data's epochs end");
  app.add_option("--data", session.dataPath,
                 "safetensors file with a tensor for each input, samples along "
                 "the first dim, or token files, as a shell pattern; sample: "
                 "what the model was exported with; default: the config's");
  app.add_option(
      "--data-options", session.dataOptions,
      "how data is read, in place of the config's: KEY=VALUE,"
      "KEY=VALUE out of shuffle, drop_last (true, false), seed, "
      "epochs, format (nanogpt, llm.c, megatron), dtype (uint16, "
      "uint32), inputs, targets, pad (INPUT:NUMBER), length_pool, "
      "length_group, labels, label_count, shifts_labels, ignore (tensors that "
      "are not read), "
      "repeat (inputs whose rows begin again on their own), exported "
      "(inputs that take their exported sample; all names with + "
      "between them)");
}

static void addValidation(CLI::App &app, RunOptions &options) {
  SessionOptions &session = options.launch.session;
  TrainOptions &train = options.train;
  app.add_option("--eval-data", session.evalDataPath,
                 "what validation reads, in place of the config's");
  app.add_option("--eval-every", train.evalEvery,
                 "steps from one validation to the next, in place of the "
                 "config's; 0: at the end alone");
  app.add_option("--eval-batches", session.evalBatches,
                 "batches of all ranks that validation reads at most, in place "
                 "of the config's; 0: all that the data fills");
  app.add_option("--patience", train.patience,
                 "end the run when so many validations in a row found no loss "
                 "below the least")
      ->check(CLI::PositiveNumber);
  app.add_flag("--eval-only", train.evalOnly,
               "compute the validation's loss once and take no step");
}

static void addModel(CLI::App &app, RunOptions &options) {
  LaunchOptions &launch = options.launch;
  SessionOptions &session = options.launch.session;
  app.add_option("--model", session.modelPath,
                 "the model file, if it was moved since it was compiled");
  app.add_flag_callback(
      "--trust", [&] { launch.trust = Trust::own; },
      "the artifact is your own: call kernels that rely on what is not "
      "checked");
  app.add_option("--program", session.program,
                 "which program of the artifact to run, if its inputs' shapes "
                 "do not tell");
  app.add_option("--weights", session.weightsPaths,
                 "safetensors file, model.safetensors.index.json, or folder to "
                 "read first values from, in place of what was named when the "
                 "artifact was compiled; several are looked through in order")
      ->allow_extra_args(false);
}

static void addRanks(CLI::App &app, RunOptions &options) {
  LaunchOptions &launch = options.launch;
  SessionOptions &session = options.launch.session;
  app.add_option("--world", launch.world,
                 "which plan to run of an artifact that has some for several "
                 "numbers of ranks; default: that for as many processes as a "
                 "launcher started")
      ->check(CLI::PositiveNumber);
  app.add_option("--backend", launch.backend,
                 "local (threads), gloo (processes), nccl (processes with a "
                 "GPU each) or fake (one rank, no data); default: gloo or nccl "
                 "under a launcher, else local");
  app.add_option("--rendezvous", launch.rendezvous,
                 "where processes meet: env://, tcp://host:port or "
                 "file:///path")
      ->capture_default_str();
  app.add_option("--threads", launch.threads,
                 "threads a rank; default: OMP_NUM_THREADS, else the cores "
                 "divided by the ranks")
      ->check(CLI::Range(1, 65536));
  addChoice<Pin>(
      app, "--pin", launch.pin,
      {{"none", Pin::none}, {"cores", Pin::cores}, {"threads", Pin::threads}},
      "keep each rank's threads on cores of their own: cores, or "
      "threads (hardware threads of cores); default: none");
  addChoice<CudaGraph>(
      app, "--cuda-graph", session.device.cudaGraph,
      {{"auto", CudaGraph::automatic},
       {"on", CudaGraph::on},
       {"off", CudaGraph::off}},
      "on a GPU, launch a whole step at once: auto (where it can "
      "be captured), on (else it is an error) or off; default: auto");
}

/// Not in --help: what a bus would do to a step, where there is none, is a
/// matter of tests.
static void addCopyBandwidth(CLI::App &app, RunOptions &options) {
  app.add_option("--copy-bandwidth",
                 options.launch.session.device.copyBandwidth,
                 "with device: cpu, the most bytes a second that copies "
                 "between both memories move in each direction")
      ->check(CLI::PositiveNumber)
      ->group("");
}

static void addNumbers(CLI::App &app, RunOptions &options) {
  LaunchOptions &launch = options.launch;
  SessionOptions &session = options.launch.session;
  app.add_option("--seed", session.seed,
                 "where random sequences begin; default: the config's seed");
  addChoice<MatmulLibrary>(
      app, "--matmul", launch.matmul,
      {{"auto", MatmulLibrary::automatic},
       {"blas", MatmulLibrary::blas},
       {"onednn", MatmulLibrary::onednn}},
      "who multiplies matrices of f32: auto (by the processor), "
      "blas (as PyTorch, bit by bit) or onednn")
      ->default_str("auto");
  app.add_option("--on-nonfinite", session.onNonFinite,
                 "what a loss or gradient norm that is NaN or infinite does: "
                 "stop, skip (the update) or ignore; default: the config's "
                 "on_nonfinite");
  app.add_flag("--debug-nan", session.debugNan,
               "find the operator that made a NaN or infinity of the loss or "
               "the gradients; steps take many times as long");
  app.add_flag(
      "--debug-index", session.device.checksIndices,
      "on a GPU, look at indices before kernels use them, and name the "
      "operator that got one out of range; steps take many times as "
      "long");
  app.add_flag("--poison", session.poison,
               "fill memory that holds nothing with NaN before each step, to "
               "find reads of it");
}

static void addLearningRate(CLI::App &app, RunOptions &options) {
  SessionOptions &session = options.launch.session;
  app.add_option("--lr", session.lr,
                 "learning rate in place of the config's; groups of parameters "
                 "keep their ratio to it");
  app.add_option("--lr-schedule", session.lrSchedule,
                 "schedule in place of the config's: constant, "
                 "constant_with_warmup, linear, cosine or cosine_with_min_lr, "
                 "then :NAME=VALUE,NAME=VALUE out of warmup and total (steps), "
                 "warmup_ratio and min (a rate); total: --steps by default");
}

static void addDeadline(CLI::App &app, RunOptions &options) {
  LaunchOptions &launch = options.launch;
  app.add_option_function<double>(
         "--deadline",
         [&launch](double seconds) {
           launch.deadline =
               std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
         },
         "seconds that a rank waits for another one")
      ->check(CLI::Range(1e-3, 1e9))
      ->default_str("600");
}

static void addOutputs(CLI::App &app, RunOptions &options) {
  TrainOptions &train = options.train;
  app.add_option("--metrics", train.metricsPath,
                 "write one JSON object a step to this file");
  app.add_option("--peak-flops", train.peakFlops,
                 "floating-point operations that a rank's device can do a "
                 "second, such as 989e12: metrics have the model's share of "
                 "them (mfu)")
      ->check(CLI::PositiveNumber);
  app.add_option("--tensorboard", train.monitors.tensorboard,
                 "write the metrics for TensorBoard to this folder");
  app.add_option("--prometheus", train.monitors.prometheus,
                 "answer GET /metrics at this [HOST:]PORT while the run lasts; "
                 "without a host on the loopback alone");
  app.add_option("--export", train.exportPath,
                 "write the unsharded weights to this safetensors file at the "
                 "end; with a / at its end, to files of a folder, with an "
                 "index");
  app.add_option("--export-trained", train.exportTrainedPath,
                 "write the parameters that are trained alone, such as "
                 "adapters, as --export does");
  app.add_option("--export-merged", train.exportMergedPath,
                 "write the model with its low-rank adapters added to the "
                 "matrices that they are trained beside, as --export does");
  app.add_option("--export-shard-size", train.exportShardBytes,
                 "bytes that a file of such a folder has at most, as 5GB")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->capture_default_str();
  app.add_option(
      "--outputs", train.outputsPath,
      "write the kept outputs of all steps to this safetensors file, "
      "a row for each row of the data");
}

static void addReports(CLI::App &app, RunOptions &options, LogLevel &level) {
  TrainOptions &train = options.train;
  app.add_option(
      "--profile", train.profilePath,
      "write when each kernel and transfer of some steps ran to this file, for "
      "https://ui.perfetto.dev, and print where the time went");
  app.add_option("--profile-steps", train.profileSteps,
                 "FIRST:COUNT, the steps to profile; default: up to five, "
                 "after the first three");
  app.add_flag("--dry-run", options.isDryRun,
               "print memory and collectives, check everything, and play one "
               "rank for --steps steps (default 1)");
  addChoice<LogLevel>(app, "--log-level", level,
                      {{"error", LogLevel::error},
                       {"warning", LogLevel::warning},
                       {"info", LogLevel::info},
                       {"debug", LogLevel::debug}},
                      "error, warning, info or debug")
      ->default_str("warning");
}

static void addFlightRecords(CLI::App &app, RunOptions &options) {
  app.add_option("--flight-records", options.launch.flightRecords,
                 "when the run fails, and on SIGUSR1, each rank writes its "
                 "last 1,000 transfers to a file in a new folder in this one; "
                 "none: nowhere")
      ->capture_default_str();
  app.add_option("--compare-records", options.compareRecords,
                 "without PLAN: which rank was behind, and at which transfer, "
                 "as the files in this folder say; exit status 1 if one was");
}

/// Not in --help, either: for test/bench/flights.py.
static void addUnrecorded(CLI::App &app, RunOptions &options) {
  app.add_flag_callback(
         "--unrecorded", [&] { options.launch.recordsFlights = false; },
         "record no transfers, to measure what that costs")
      ->group("");
}

/// Whether all that is asked for is to read files.
static bool settleRecords(const CLI::App &app, RunOptions &options) {
  if (options.launch.flightRecords == "none")
    options.launch.flightRecords.clear();
  else if (options.launch.flightRecords.empty())
    throw Error(ErrorId::BadUsage,
                "--flight-records: expected a folder, or none, found ''");
  if (!app.count("--compare-records"))
    return false;
  if (options.compareRecords.empty())
    throw Error(ErrorId::BadUsage,
                "--compare-records: expected a folder, found ''");
  for (const CLI::Option *option : app.get_options())
    if (option->count() != 0 && option->get_name() != "--compare-records")
      throw Error(ErrorId::BadUsage,
                  "--compare-records reads flight records and runs nothing; "
                  "leave out " +
                      option->get_name());
  return true;
}

static void addCalibration(CLI::App &app, CalibrateOptions &calibrate) {
  app.add_option("--calibrate", calibrate.path,
                 "measure this machine for some minutes, without PLAN, with "
                 "ranks as this back end has them (nccl: its GPUs), and write "
                 "what fsdp-opt --cluster=FILE.yaml predicts steps with");
  app.add_option("--nproc", calibrate.ranks,
                 "with --calibrate and ranks that are threads: the most of "
                 "them that are measured together; default: as many as "
                 "processors")
      ->check(CLI::Range(2, 256));
}

/// Ranks of a calibration are started as those of a run.
static void settleCalibration(const CLI::App &app, RunOptions &options) {
  if (!app.count("--calibrate")) {
    if (app.count("--nproc"))
      throw Error(ErrorId::BadUsage,
                  "--nproc says how many ranks --calibrate measures; the ranks "
                  "of a run are those that it was compiled for");
    if (options.launch.artifact.empty())
      throw Error(ErrorId::BadUsage, "PLAN is required; see fsdp-run --help");
    return;
  }
  static constexpr std::string_view used[] = {
      "--calibrate", "--nproc",  "--backend",  "--rendezvous",
      "--threads",   "--matmul", "--deadline", "--log-level"};
  for (const CLI::Option *option : app.get_options())
    if (option->count() != 0 &&
        std::ranges::find(used, option->get_name()) == std::end(used))
      throw Error(ErrorId::BadUsage,
                  "--calibrate measures the machine and trains nothing; leave "
                  "out " +
                      option->get_name());
  CalibrateOptions &calibrate = options.calibrate.emplace();
  calibrate.path = app["--calibrate"]->as<std::string>();
  if (app.count("--nproc"))
    calibrate.ranks = app["--nproc"]->as<int>();
  calibrate.backend = options.launch.backend;
  calibrate.rendezvous = options.launch.rendezvous;
  calibrate.deadline = options.launch.deadline;
  calibrate.threads = options.launch.threads;
  calibrate.matmul = options.launch.matmul;
}

static void addCheckpoints(CLI::App &app, RunOptions &options) {
  SessionOptions &session = options.launch.session;
  CheckpointOptions &checkpoints = options.train.checkpoints;
  app.add_option("--save", checkpoints.folder,
                 "write a checkpoint, step_N in this folder, at the end");
  app.add_option("--save-every", checkpoints.every,
                 "write one after each so many steps, too")
      ->check(CLI::PositiveNumber);
  app.add_option("--keep", checkpoints.keep,
                 "delete all but so many of the newest "
                 "checkpoints when one was written; default: none")
      ->check(CLI::PositiveNumber);
  app.add_flag("--keep-best", checkpoints.keepsBest,
               "write one after a validation that found the least loss so far, "
               "and do not delete it: best in this folder");
  app.add_flag("--save-sync", checkpoints.isInStep,
               "wait until a checkpoint is on the disk before the next "
               "step, rather than write it meanwhile");
  app.add_option("--load", session.checkpointPath,
                 "continue from a checkpoint, from the newest of a folder, or "
                 "from the newest that --save wrote (latest), which may be "
                 "none yet; made at any world size");
}

static void checkCheckpoints(const CLI::App &app, RunOptions &options) {
  SessionOptions &session = options.launch.session;
  const CheckpointOptions &checkpoints = options.train.checkpoints;
  for (const char *name :
       {"--save-every", "--keep", "--keep-best", "--save-sync"})
    if (app.count(name) && checkpoints.folder.empty())
      throw Error(ErrorId::BadUsage,
                  std::string(name) + " says how checkpoints are written, and "
                                      "no --save=DIR says where; give both");
  if (session.checkpointPath == "latest") {
    if (checkpoints.folder.empty())
      throw Error(ErrorId::BadUsage,
                  "--load=latest means the newest checkpoint that --save=DIR "
                  "wrote; give both, or write --load=./latest for a folder of "
                  "that name");
    session.checkpointPath = checkpoints.folder;
    session.mayLackCheckpoint = true;
  }
}

static void checkSteps(const CLI::App &app, RunOptions &options) {
  TrainOptions &train = options.train;
  if (train.evalOnly && (app.count("--steps") || options.isDryRun))
    throw Error(
        ErrorId::BadUsage,
        "--eval-only takes no step; leave out " +
            std::string(app.count("--steps") ? "--steps" : "--dry-run"));
  if (!app.count("--steps") && !train.evalOnly)
    train.steps = options.isDryRun ? 1 : kUntilDataEnds;
}

static void checkProfile(const CLI::App &app, const RunOptions &options) {
  const TrainOptions &train = options.train;
  if (options.launch.session.debugNan && app.count("--profile"))
    throw Error(
        ErrorId::BadUsage,
        "--profile tells how long steps take, and with --debug-nan they "
        "take many times as long; leave one of them out");
  if (app.count("--profile-steps") && !app.count("--profile"))
    throw Error(ErrorId::BadUsage,
                "--profile-steps says which steps to profile, and no "
                "--profile=FILE.json asks for a profile; give both");
  if (app.count("--profile"))
    parseProfileSteps(train.profileSteps, train.steps);
}

static void checkOutputs(const RunOptions &options) {
  const TrainOptions &train = options.train;
  if (train.patience != 0 && !train.outputsPath.empty())
    throw Error(ErrorId::BadUsage,
                "--outputs writes a file of as many batches as the run has, "
                "and with --patience that is not known; leave one of them out");
  for (const auto &[name, path] :
       {std::pair("--save", &train.checkpoints.folder),
        {"--export", &train.exportPath},
        {"--export-trained", &train.exportTrainedPath},
        {"--export-merged", &train.exportMergedPath},
        {"--outputs", &train.outputsPath},
        {"--profile", &train.profilePath}})
    if (!path->empty() &&
        (options.isDryRun || options.launch.backend == "fake"))
      throw Error(ErrorId::BadUsage,
                  std::string(name) + " needs the data of all ranks, which " +
                      (options.isDryRun ? "--dry-run" : "--backend=fake") +
                      " does not have; leave one of them out");
}

std::optional<RunOptions> fsdp::parseOptions(int argc,
                                             const char *const *argv) {
  RunOptions options;
  LogLevel level = LogLevel::warning;
  CLI::App app("Trains with an artifact of fsdp-opt.", "fsdp-run");
  app.footer(kExamples);
  app.set_version_flag("--version",
                       "fsdp-run " + std::string(kCompilerVersion));
  // In the order in which --help lists them.
  addData(app, options);
  addValidation(app, options);
  addModel(app, options);
  addRanks(app, options);
  addCopyBandwidth(app, options);
  addNumbers(app, options);
  addLearningRate(app, options);
  addDeadline(app, options);
  addOutputs(app, options);
  addReports(app, options, level);
  addCheckpoints(app, options);
  addFlightRecords(app, options);
  addUnrecorded(app, options);
  CalibrateOptions calibrate;
  addCalibration(app, calibrate);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &request) {
    app.exit(request, std::cout, std::cerr);
    return std::nullopt;
  } catch (const CLI::ParseError &error) {
    throw Error(ErrorId::BadUsage,
                std::string(error.what()) + "; see fsdp-run --help");
  }
  setLogLevel(level);
  if (settleRecords(app, options))
    return options;
  settleCalibration(app, options);
  if (options.calibrate)
    return options;
  checkCheckpoints(app, options);
  if (options.launch.backend == "nccl" && !hasCudaLibrary())
    throw Error(ErrorId::RuntimeUnsupported,
                "--backend=nccl is not in this build, which runs on the CPU; "
                "use --backend=local or --backend=gloo");
  checkSteps(app, options);
  checkProfile(app, options);
  checkOutputs(options);
  options.launch.session.steps = options.train.steps;
  return options;
}

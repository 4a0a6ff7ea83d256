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
#include <array>
#include <chrono>
#include <iostream>
#include <string_view>
#include <utility>
#include <variant>
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
static std::string listNames(const std::vector<std::string_view> &names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i)
    text += (i == 0                 ? ""
             : i + 1 < names.size() ? ", "
                                    : " or ") +
            std::string(names[i]);
  return text;
}

/// CLI::CheckedTransformer would take the enumerators' numbers, too, and print
/// them in --help and in errors.
static CLI::Option *addChoice(CLI::App &app, const std::string &name,
                              const Choice &value,
                              const std::string &description) {
  auto set = [name, value](const std::string &chosen) {
    if (std::ranges::find(value.names, chosen) == value.names.end())
      throw CLI::ValidationError(name, "expected " + listNames(value.names) +
                                           ", found '" + chosen + "'");
    value.set(value.value, chosen);
  };
  return app.add_option_function<std::string>(name, set, description);
}

namespace {

/// Makes an option of a value whose type has just been found out.
struct Adder {
  CLI::App &app;
  const std::string name;
  const RunOption &row;

  CLI::Option *operator()(bool *value) const {
    return app.add_flag(name, *value, row.help);
  }
  template <typename T>
  CLI::Option *operator()(T *value) const {
    return app.add_option(name, *value, row.help);
  }
  CLI::Option *operator()(std::vector<std::string> *value) const {
    return app.add_option(name, *value, row.help)->allow_extra_args(false);
  }
  CLI::Option *operator()(std::chrono::milliseconds *value) const {
    auto set = [value](double seconds) {
      *value = std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
    };
    return app.add_option_function<double>(name, set, row.help);
  }
  CLI::Option *operator()(const Choice &value) const {
    return addChoice(app, name, value, row.help);
  }
};

} // namespace

static void addRunOption(CLI::App &app, RunOptions &options,
                         const RunOption &row) {
  OptionValue value = row.in(options);
  CLI::Option *option = std::visit(Adder{app, "--" + row.name, row}, value);
  const Bounds &bounds = row.traits.bounds;
  if (bounds.isAbove)
    option->check(CLI::PositiveNumber);
  else if (bounds.hasLeast() && std::holds_alternative<int *>(value))
    option->check(CLI::Range(static_cast<int>(bounds.least),
                             static_cast<int>(bounds.most)));
  else if (bounds.hasLeast())
    option->check(CLI::Range(bounds.least, bounds.most));
  if (row.traits.isSize)
    option->transform(CLI::AsSizeValue(/*kb_is_1000=*/true));
  if (row.traits.isHidden)
    option->group("");
  // A 0 stands for what the text says.
  std::string unset = toText(value);
  if (!unset.empty() && unset != "0" && !std::holds_alternative<bool *>(value))
    option->default_str(unset);
}

namespace fsdp {
static constexpr std::array<std::pair<std::string_view, LogLevel>, 4>
namesOf(LogLevel) {
  return {{{"error", LogLevel::error},
           {"warning", LogLevel::warning},
           {"info", LogLevel::info},
           {"debug", LogLevel::debug}}};
}
} // namespace fsdp

/// What is asked of fsdp-run itself.
static void addRequests(CLI::App &app, RunRequest &request, LogLevel &level) {
  app.add_flag("--dry-run", request.isDryRun,
               "print memory and collectives, check everything, and play one "
               "rank for --steps steps (default 1)");
  app.add_option("--compare-records", request.compareRecords,
                 "without PLAN: which rank was behind, and at which transfer, "
                 "as the files in this folder say; exit status 1 if one was");
  addChoice(app, "--log-level", Choice(level), "error, warning, info or debug")
      ->default_str("warning");
}

/// Whether all that is asked for is to read files.
static bool settleRecords(const CLI::App &app, RunRequest &options) {
  if (options.launch.flightRecords.empty())
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
static void settleCalibration(const CLI::App &app, RunRequest &options) {
  if (!app.count("--calibrate")) {
    if (app.count("--nproc"))
      throw Error(ErrorId::BadUsage,
                  "--nproc says how many ranks --calibrate measures; the ranks "
                  "of a run are those that it was compiled for");
    if (options.launch.artifact.empty())
      throw Error(ErrorId::BadUsage, "PLAN is required; see fsdp-run --help");
    return;
  }
  std::vector<std::string> used = {"--calibrate", "--nproc", "--log-level"};
  for (const RunOption &row : listRunOptions())
    if (row.traits.isForCalibration)
      used.push_back("--" + row.name);
  for (const CLI::Option *option : app.get_options())
    if (option->count() != 0 &&
        std::ranges::find(used, option->get_name()) == used.end())
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

static void checkSteps(const CLI::App &app, RunRequest &options) {
  bool isGiven = app.count("--steps") != 0;
  if (options.train.evalOnly && (isGiven || options.isDryRun))
    throw Error(ErrorId::BadUsage,
                "--eval-only takes no step; leave out " +
                    std::string(isGiven ? "--steps" : "--dry-run"));
  if (!isGiven)
    options.launch.session.steps = options.train.evalOnly ? 0
                                   : options.isDryRun     ? 1
                                                          : kUntilDataEnds;
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
    parseProfileSteps(train.profileSteps, *options.launch.session.steps);
}

static void checkOutputs(const CLI::App &app, const RunRequest &options) {
  const TrainOptions &train = options.train;
  if (train.patience != 0 && !train.outputsPath.empty())
    throw Error(ErrorId::BadUsage,
                "--outputs writes a file of as many batches as the run has, "
                "and with --patience that is not known; leave one of them out");
  if (!options.isDryRun && options.launch.backend != "fake")
    return;
  for (const RunOption &row : listRunOptions())
    if (row.traits.needsAllRanks && app.count("--" + row.name))
      throw Error(ErrorId::BadUsage,
                  "--" + row.name + " needs the data of all ranks, which " +
                      (options.isDryRun ? "--dry-run" : "--backend=fake") +
                      " does not have; leave one of them out");
}

std::optional<RunRequest> fsdp::parseOptions(int argc,
                                             const char *const *argv) {
  RunRequest options;
  LogLevel level = LogLevel::warning;
  CLI::App app("Trains with an artifact of fsdp-opt.", "fsdp-run");
  app.footer(kExamples);
  app.set_version_flag("--version",
                       "fsdp-run " + std::string(kCompilerVersion));
  app.add_option("PLAN", options.launch.artifact, "the artifact, step.fsdp");
  for (const RunOption &row : listRunOptions())
    addRunOption(app, options, row);
  addRequests(app, options, level);
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
  checkOutputs(app, options);
  return options;
}

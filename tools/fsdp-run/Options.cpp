//===- Options.cpp - The command line of fsdp-run -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-run/Options.h"

#include "runtime/Log.h"
#include "runtime/plan/Version.h"
#include "runtime/profile/Profiler.h"
#include "runtime/support/Error.h"

#include <CLI/CLI.hpp>

#include <iostream>
#include <map>

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
  fsdp-run infer.fsdp --steps=50 --data=test.safetensors --outputs=o.safetensors
      what the model returns for each row of the data)";

std::optional<RunOptions> fsdp::parseOptions(int argc,
                                             const char *const *argv) {
  RunOptions options;
  LaunchOptions &launch = options.launch;
  TrainOptions &train = options.train;
  double deadline = 600;
  CheckpointOptions &checkpoints = train.checkpoints;
  std::string level = "warning", pin = "none", matmul = "auto", graph = "auto";
  const std::map<std::string, MatmulLibrary> matmuls{
      {"auto", MatmulLibrary::automatic},
      {"blas", MatmulLibrary::blas},
      {"onednn", MatmulLibrary::onednn}};
  const std::map<std::string, CudaGraph> graphs{{"auto", CudaGraph::automatic},
                                                {"on", CudaGraph::on},
                                                {"off", CudaGraph::off}};
  const std::map<std::string, Pin> pins{
      {"none", Pin::none}, {"threads", Pin::threads}, {"cores", Pin::cores}};
  const std::map<std::string, LogLevel> levels{{"error", LogLevel::error},
                                               {"warning", LogLevel::warning},
                                               {"info", LogLevel::info},
                                               {"debug", LogLevel::debug}};

  CLI::App app("Trains with an artifact of fsdp-opt.", "fsdp-run");
  app.footer(kExamples);
  app.set_version_flag("--version",
                       "fsdp-run " + std::string(kCompilerVersion));
  app.add_option("PLAN", launch.artifact, "the artifact, step.fsdp")
      ->required();
  auto *steps = app.add_option("--steps", train.steps,
                               "optimizer steps of the whole training, those "
                               "of a checkpoint too; default: until the "
                               "data's epochs end");
  app.add_option("--data", launch.dataPath,
                 "safetensors file with a tensor for each input, samples along "
                 "the first dim, or token files, as a shell pattern; sample: "
                 "what the model was exported with; default: the config's");
  app.add_option(
      "--data-options", launch.dataOptions,
      "how data is read, in place of the config's: KEY=VALUE,"
      "KEY=VALUE out of shuffle, drop_last (true, false), seed, "
      "epochs, format (nanogpt, llm.c, megatron), dtype (uint16, "
      "uint32), inputs, targets, ignore (tensors that are not read), "
      "repeat (inputs whose rows begin again on their own), exported "
      "(inputs that take their exported sample; all names with + "
      "between them)");
  app.add_option("--eval-data", launch.evalDataPath,
                 "what validation reads, in place of the config's");
  app.add_option("--eval-every", train.evalEvery,
                 "steps from one validation to the next, in place of the "
                 "config's; 0: at the end alone");
  app.add_option("--eval-batches", launch.evalBatches,
                 "batches of all ranks that validation reads at most, in place "
                 "of the config's; 0: all that the data fills");
  app.add_flag("--eval-only", train.evalOnly,
               "compute the validation's loss once and take no step");
  app.add_option("--model", launch.modelPath,
                 "the model file, if it was moved since it was compiled");
  app.add_flag_callback(
      "--trust", [&] { launch.trust = Trust::own; },
      "the artifact is your own: call kernels that rely on what is not "
      "checked");
  app.add_option("--program", launch.program,
                 "which program of the artifact to run, if its inputs' shapes "
                 "do not tell");
  app.add_option("--weights", launch.weightsPaths,
                 "safetensors file, model.safetensors.index.json, or folder to "
                 "read first values from, in place of what was named when the "
                 "artifact was compiled; several are looked through in order")
      ->allow_extra_args(false);
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
  app.add_option("--pin", pin,
                 "keep each rank's threads on cores of their own: cores, or "
                 "threads (hardware threads of cores); default: none")
      ->check([&](const std::string &name) {
        return pins.count(name)
                   ? std::string()
                   : "expected none, cores or threads, found '" + name + "'";
      });
  app.add_option("--cuda-graph", graph,
                 "on a GPU, launch a whole step at once: auto (where it can "
                 "be captured), on (else it is an error) or off; default: auto")
      ->check([&](const std::string &name) {
        return graphs.count(name)
                   ? std::string()
                   : "expected auto, on or off, found '" + name + "'";
      });
  app.add_option("--seed", launch.seed,
                 "where random sequences begin; default: the config's seed");
  app.add_option("--matmul", matmul,
                 "who multiplies matrices of f32: auto (by the processor), "
                 "blas (as PyTorch, bit by bit) or onednn")
      ->check([&](const std::string &name) {
        return matmuls.count(name)
                   ? std::string()
                   : "expected auto, blas or onednn, found '" + name + "'";
      })
      ->capture_default_str();
  app.add_option("--on-nonfinite", launch.onNonFinite,
                 "what a loss or gradient norm that is NaN or infinite does: "
                 "stop, skip (the update) or ignore; default: the config's "
                 "on_nonfinite");
  app.add_flag("--debug-nan", launch.debugNan,
               "find the operator that made a NaN or infinity of the loss or "
               "the gradients; steps take many times as long");
  app.add_flag("--poison", launch.poison,
               "fill memory that holds nothing with NaN before each step, to "
               "find reads of it");
  app.add_option("--lr", launch.lr,
                 "learning rate in place of the config's; groups of parameters "
                 "keep their ratio to it");
  app.add_option("--lr-schedule", launch.lrSchedule,
                 "schedule in place of the config's: constant, "
                 "constant_with_warmup, linear, cosine or cosine_with_min_lr, "
                 "then :NAME=VALUE,NAME=VALUE out of warmup and total (steps), "
                 "warmup_ratio and min (a rate); total: --steps by default");
  app.add_option("--deadline", deadline,
                 "seconds that a rank waits for another one")
      ->check(CLI::Range(1e-3, 1e9))
      ->capture_default_str();
  app.add_option("--metrics", train.metricsPath,
                 "write one JSON object a step to this file");
  app.add_option("--export", train.exportPath,
                 "write the unsharded weights to this safetensors file at the "
                 "end; with a / at its end, to files of a folder, with an "
                 "index");
  app.add_option("--export-shard-size", train.exportShardBytes,
                 "bytes that a file of such a folder has at most, as 5GB")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->capture_default_str();
  app.add_option(
      "--outputs", train.outputsPath,
      "write the kept outputs of all steps to this safetensors file, "
      "a row for each row of the data");
  auto *profile = app.add_option(
      "--profile", train.profilePath,
      "write when each kernel and transfer of some steps ran to this file, for "
      "https://ui.perfetto.dev, and print where the time went");
  auto *profileSteps =
      app.add_option("--profile-steps", train.profileSteps,
                     "FIRST:COUNT, the steps to profile; default: up to five, "
                     "after the first three");
  app.add_flag("--dry-run", options.isDryRun,
               "print memory and collectives, check everything, and play one "
               "rank for --steps steps (default 1)");
  app.add_option("--log-level", level, "error, warning, info or debug")
      ->check([&](const std::string &name) {
        return levels.count(name) ? std::string()
                                  : "expected error, warning, info or debug, "
                                    "found '" +
                                        name + "'";
      })
      ->capture_default_str();
  app.add_option("--save", checkpoints.folder,
                 "write a checkpoint, step_N in this folder, at the end");
  auto *every = app.add_option("--save-every", checkpoints.every,
                               "write one after each so many steps, too")
                    ->check(CLI::PositiveNumber);
  auto *keep = app.add_option("--keep", checkpoints.keep,
                              "delete all but so many of the newest "
                              "checkpoints when one was written; default: none")
                   ->check(CLI::PositiveNumber);
  auto *isInStep =
      app.add_flag("--save-sync", checkpoints.isInStep,
                   "wait until a checkpoint is on the disk before the next "
                   "step, rather than write it meanwhile");
  app.add_option("--load", launch.checkpointPath,
                 "continue from a checkpoint, from the newest of a folder, or "
                 "from the newest that --save wrote (latest), which may be "
                 "none yet; made at any world size");

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &request) {
    app.exit(request, std::cout, std::cerr);
    return std::nullopt;
  } catch (const CLI::ParseError &error) {
    throw Error(ErrorId::BadUsage,
                std::string(error.what()) + "; see fsdp-run --help");
  }
  for (const CLI::Option *option : {every, keep, isInStep})
    if (option->count() && checkpoints.folder.empty())
      throw Error(ErrorId::BadUsage,
                  option->get_name() + " says how checkpoints are written, and "
                                       "no --save=DIR says where; give both");
  if (launch.checkpointPath == "latest") {
    if (checkpoints.folder.empty())
      throw Error(ErrorId::BadUsage,
                  "--load=latest means the newest checkpoint that --save=DIR "
                  "wrote; give both, or write --load=./latest for a folder of "
                  "that name");
    launch.checkpointPath = checkpoints.folder;
    launch.mayLackCheckpoint = true;
  }
#ifndef FSDP_CUDA
  if (launch.backend == "nccl")
    throw Error(ErrorId::RuntimeUnsupported,
                "--backend=nccl is not in this build, which runs on the CPU; "
                "use --backend=local or --backend=gloo");
#endif
  if (train.evalOnly && (steps->count() || options.isDryRun))
    throw Error(ErrorId::BadUsage,
                "--eval-only takes no step; leave out " +
                    std::string(steps->count() ? "--steps" : "--dry-run"));
  if (steps->count() == 0 && !train.evalOnly) {
    train.steps = options.isDryRun ? 1 : kUntilDataEnds;
  }
  if (launch.debugNan && profile->count())
    throw Error(
        ErrorId::BadUsage,
        "--profile tells how long steps take, and with --debug-nan they "
        "take many times as long; leave one of them out");
  if (profileSteps->count() && !profile->count())
    throw Error(ErrorId::BadUsage,
                "--profile-steps says which steps to profile, and no "
                "--profile=FILE.json asks for a profile; give both");
  if (profile->count())
    parseProfileSteps(train.profileSteps, train.steps);
  for (const auto &[name, path] : {std::pair("--save", &checkpoints.folder),
                                   {"--export", &train.exportPath},
                                   {"--outputs", &train.outputsPath},
                                   {"--profile", &train.profilePath}})
    if (!path->empty() && (options.isDryRun || launch.backend == "fake"))
      throw Error(ErrorId::BadUsage,
                  std::string(name) + " needs the data of all ranks, which " +
                      (options.isDryRun ? "--dry-run" : "--backend=fake") +
                      " does not have; leave one of them out");
  launch.steps = train.steps;
  launch.pin = pins.at(pin);
  launch.cudaGraph = graphs.at(graph);
  launch.deadline =
      std::chrono::milliseconds(static_cast<int64_t>(deadline * 1000));
  launch.matmul = matmuls.at(matmul);
  setLogLevel(levels.at(level));
  return options;
}

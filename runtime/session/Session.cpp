//===- Session.cpp - A compiled training step on one rank -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/session/Session.h"

#include "plan/Groups.h"
#include "plan/Reader.h"
#include "plan/Target.h"
#include "runtime/checkpoint/Loader.h"
#include "runtime/data/DataOptions.h"
#include "runtime/device/PlannedAllocator.h"
#include "runtime/exec/Device.h"
#include "runtime/log/Log.h"
#include "runtime/session/Devices.h"
#include "runtime/session/RunAgreement.h"
#include "runtime/session/StepRunner.h"
#include "runtime/session/Validation.h"
#include "runtime/states/Averages.h"
#include "runtime/states/Export.h"
#include "runtime/states/ModelFile.h"
#include "runtime/states/ModelFolder.h"
#include "runtime/states/RecordChecks.h"
#include "runtime/states/States.h"
#include "runtime/states/WeightReader.h"
#include "runtime/weights/WeightFiles.h"
#include "support/Error.h"
#include "support/Processor.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <filesystem>

using namespace fsdp;

/// Kernels, and with them the plan's layouts, change from minor to minor.
static void checkLibTorch(const plan::PlanT &plan) {
  if (!plan.model || plan.model->torch.empty())
    return;
  std::string mine = std::to_string(TORCH_VERSION_MAJOR) + "." +
                     std::to_string(TORCH_VERSION_MINOR);
  const std::string &theirs = plan.model->torch;
  if (theirs != mine && !theirs.starts_with(mine + "."))
    throw Error(ErrorId::LibTorchMismatch,
                "the artifact was made with LibTorch " + theirs +
                    ", this runtime has " + mine +
                    "; use the same minor version, or compile the model again");
}

static void checkSameArtifact(const PlanFile &plan, Fabric &fabric) {
  std::vector<std::string> hashes = fabric.exchange("plan", plan.hash());
  for (size_t i = 0; i < hashes.size(); ++i)
    if (hashes[i] != plan.hash())
      throw Error(ErrorId::PlanMismatch,
                  "rank " + std::to_string(fabric.rank()) +
                      " runs the artifact " + plan.hash() + ", rank " +
                      std::to_string(i) + " runs " + hashes[i] +
                      "; give all ranks the same file");
}

struct Session::Impl {
  Impl(const PlanFile &file, Fabric &ranks, const SessionOptions &options);
  ~Impl() { place.finish(); }

  LearningRates makeRates(SessionOptions options) const;
  void prepareValidation(const SessionOptions &options,
                         const InputSources &training);
  std::vector<RunFact> describeSources(const SessionOptions &options) const;
  void initialize(const SessionOptions &options);
  void continueFrom(const Manifest &manifest, std::optional<uint64_t> wanted,
                    uint64_t total = 0);
  /// Batches that all ranks together read in a step.
  uint64_t stepBatches() const {
    return loadedBatches() * (grains ? 1 : plan.data_parallel);
  }
  /// Those that `inputs` takes for one rank's.
  uint64_t loadedBatches() const {
    return grains ? grains->total : programs.microBatches;
  }
  /// While it lives, validation is of the averages, if it is to be.
  std::unique_ptr<AveragedParameters> average() const {
    if (!plan.validation || !plan.validation->averaged)
      return nullptr;
    return std::make_unique<AveragedParameters>(plan, place.fabric.rank(),
                                                place.arenas);
  }
  void exportTo(const std::string &path, uint64_t shardBytes, Exported what,
                const std::vector<std::string> &without) {
    fsdp::exportWeights(plan, place.arenas, place.fabric,
                        "export/" + std::to_string(exports++), path, shardBytes,
                        what, without);
    auto beside = chooseModelFiles(plan, what);
    if (beside && place.fabric.rank() == 0 && isExportFolder(path))
      copyModelFiles(weightsPaths, path, *beside);
  }

  const plan::PlanT &plan;
  const std::string planHash;
  Workplace place;
  const bool isInProcess;
  const StepPrograms programs;
  const std::optional<StepGrains> grains;
  std::optional<ModelFile> model;
  std::optional<Inputs> inputs;
  std::optional<LearningRates> rates;
  std::optional<StepRunner> runner;
  std::optional<Validation> validation;
  std::string loadedFrom;
  std::vector<std::string> weightsPaths; ///< where first values are from
  uint64_t seed;
  uint64_t exports = 0, loads = 0;
};

/// What bits depend on beside the artifact, the data and options. Ranks that
/// are threads have it in common.
static std::vector<RunFact> describeMachine() {
  return {{"the processor", getProcessorName(), ""},
          {"the vector units", at::get_cpu_capability(), ""},
          {"--threads", std::to_string(at::get_num_threads()), ""}};
}

/// All that can be refused without the other ranks comes first.
static const plan::PlanT &checked(const PlanFile &file, Fabric &fabric,
                                  const SessionOptions &options) {
  const plan::PlanT &plan = file.plan();
  if (!options.makeDevice)
    checkDevice(plan);
  checkLibTorch(plan);
  if (fabric.worldSize() != static_cast<int>(getWorldSize(plan)))
    throw Error(ErrorId::WorldSizeMismatch,
                "the artifact is for " + std::to_string(getWorldSize(plan)) +
                    " ranks, found " + std::to_string(fabric.worldSize()) +
                    "; launch that many, or compile with --world=" +
                    std::to_string(fabric.worldSize()));
  checkSameArtifact(file, fabric);
  // Threads of one process have one command line.
  if (!options.isInProcess)
    agreeOnFacts(fabric, "options", collectFacts(options));
  return plan;
}

Session::Impl::Impl(const PlanFile &file, Fabric &ranks,
                    const SessionOptions &options)
    : plan(checked(file, ranks, options)), planHash(file.hash()),
      place(plan, ranks, options), isInProcess(options.isInProcess),
      programs(findStep(plan, options.program)),
      grains(plan.training->grains
                 ? std::optional(StepGrains{
                       dealGrains(plan)[getDataRank(plan, ranks.rank())],
                       plan.training->grains})
                 : std::nullopt),
      seed(options.seed.value_or(plan.training->seed)) {
  installPlannedAllocator();
  weightsPaths = options.weightsPaths;
  if (weightsPaths.empty())
    for (const auto &file : plan.weights)
      weightsPaths.push_back(
          (std::filesystem::path(options.artifactFolder) / file->path)
              .string());
  if (needsModelFile(plan))
    model.emplace(*plan.model, options.artifactFolder, options.modelPath);
  InputSources sources{model ? &*model : nullptr,
                       chooseData(plan, options.artifactFolder,
                                  options.dataPath, options.dataOptions),
                       options.allowMissingValues, grains ? grains->total : 0,
                       programs.microBatches};
  if (grains && !isInProcess)
    agreeOnFacts(place.fabric, "grains", describeMachine());
  if (sources.data.files.empty()) {
    sources.data.isSample |= options.allowMissingValues;
    if (options.needsData && !sources.data.isSample)
      throw noData();
  }
  inputs.emplace(plan, programs.parts, place.fabric.rank(), place.arena,
                 *place.device, sources);
  inputs->warnOfFewRows(loadedBatches());
  rates.emplace(makeRates(options));
  if (!options.weightsPaths.empty() && !takesWeights(plan))
    throw Error(ErrorId::BadUsage,
                "--weights: the artifact takes no first value from weights; "
                "compile the model with --weights, too");
  runner.emplace(place, programs, grains, *inputs, *rates, options);
  prepareValidation(options, sources);
  if (!isInProcess)
    agreeOnFacts(place.fabric, "files", describeSources(options));
  place.memory.countWorkers();
  std::vector<Executor *> executors = runner->executors();
  if (validation)
    for (const LossProgram &program : validation->programs())
      executors.push_back(program.executor.get());
  place.rehearse(executors);
  initialize(options);
  runner->agree();
}

/// Gives states their first values, or those of a checkpoint.
void Session::Impl::initialize(const SessionOptions &options) {
  std::optional<CheckpointLoader> checkpoint;
  if (!options.checkpointPath.empty()) {
    std::optional<std::string> path = agreeOnCheckpoint(
        place.fabric, options.checkpointPath, options.mayLackCheckpoint);
    if (path) {
      loadedFrom = *path;
      checkpoint.emplace(plan, place.fabric.rank(), *path);
    } else if (place.fabric.rank() == 0) {
      log(LogLevel::warning, "'" + options.checkpointPath +
                                 "' holds no checkpoint: the run starts from "
                                 "scratch");
    }
  }
  auto needsValue = [&](const plan::StateT &state) {
    return !checkpoint || !checkpoint->has(state);
  };
  std::optional<WeightReader> weights;
  if (needsWeights(plan, needsValue, !options.weightsPaths.empty()))
    weights.emplace(plan, options.artifactFolder, options.weightsPaths,
                    options.allowMissingValues);
  std::optional<RecordChecks> checks;
  if (model)
    checks.emplace(plan, *model, [&](const plan::StateT &state) {
      return needsValue(state) && !(weights && weights->has(state));
    });
  loadStates(plan, place.fabric.rank(), place.arenas, model ? &*model : nullptr,
             weights ? &*weights : nullptr, needsValue,
             checks ? &*checks : nullptr, &place.fabric);
  if (checks)
    checks->finish(place.fabric);
  if (checkpoint) {
    checkpoint->load(place.arenas);
    // Nobody goes on before all have what they need.
    place.fabric.exchange("loaded", "");
  }
  beginAverages(plan, place.fabric.rank(), place.arenas, needsValue);
  if (checkpoint && checkpoint->manifest() && programs.isTraining())
    continueFrom(*checkpoint->manifest(), options.seed,
                 options.steps.value_or(0));
  else if (options.seed)
    setSeed(plan, place.arenas, seed);
}

/// `wanted`: where random sequences are to begin; `total`: steps of the whole
/// training, 0: nobody knows.
void Session::Impl::continueFrom(const Manifest &manifest,
                                 std::optional<uint64_t> wanted,
                                 uint64_t total) {
  runner->continueAt(manifest.step, manifest.rows);
  // The one that the training began with goes on.
  if (wanted && *wanted != manifest.seed)
    setSeed(plan, place.arenas, seed = *wanted);
  else
    seed = manifest.seed;
  auto [lr, schedule] = rates->describe();
  bool goesOn = total == 0 || manifest.step < total;
  if (place.fabric.rank() == 0 && goesOn &&
      (lr != manifest.lr || schedule != manifest.schedule))
    log(LogLevel::warning,
        "the learning rate goes on as " + std::to_string(lr) + " (" + schedule +
            "), where the checkpoint was made with " +
            std::to_string(manifest.lr) + " (" + manifest.schedule + ")");
}

LearningRates Session::Impl::makeRates(SessionOptions options) const {
  // The run ends with the data.
  if (auto steps = inputs->stepsFrom(/*firstRow=*/0, loadedBatches()))
    options.steps = std::min(options.steps.value_or(0), *steps);
  else if (options.steps == kUntilDataEnds)
    throw Error(ErrorId::BadUsage,
                "expected --steps=N, the number of optimizer steps: the data "
                "has no end that could stand for it (data: {epochs: …} in the "
                "config, or --data-options=epochs=N)");
  return LearningRates(plan, place.arenas, options);
}

void Session::Impl::prepareValidation(const SessionOptions &options,
                                      const InputSources &training) {
  std::vector<LossProgram> found;
  if (programs.isTraining())
    for (const plan::ProgramT *program :
         findValidation(plan, programs.parts[0]))
      found.push_back(
          {program, std::make_unique<Executor>(place.context(), *program)});
  if (found.empty() && !options.evalDataPath.empty())
    throw Error(ErrorId::RuntimeUnsupported,
                "--eval-data: the artifact has no program for validation; "
                "compile the model with eval: {data: …} in the config");
  InputSources sources{training.model,
                       chooseValidationData(plan, options.artifactFolder,
                                            options.evalDataPath,
                                            training.data),
                       training.allowMissing};
  bool isRead = !sources.data.files.empty() || sources.data.isSample;
  if (found.empty() || (!isRead && !options.givesValidation))
    return;
  uint64_t batches = options.evalBatches.value_or(
      plan.validation ? plan.validation->batches : 0);
  validation.emplace(plan, std::move(found), place.fabric.rank(), place.arena,
                     *place.device, sources, batches);
}

/// What is read, by what it holds: ranks may have it at other places.
std::vector<RunFact>
Session::Impl::describeSources(const SessionOptions &options) const {
  std::vector<RunFact> facts{describeFiles("the data", inputs->paths())};
  facts.push_back(
      {"the lengths of the data's rows", inputs->lengthsHash(), ""});
  if (validation) {
    facts.push_back(
        describeFiles("the validation's data", validation->paths()));
    facts.push_back({"the lengths of the validation's rows",
                     validation->lengthsHash(), ""});
  }
  if (!options.weightsPaths.empty()) {
    std::vector<std::string> paths;
    WeightFiles files(options.weightsPaths);
    for (const auto &file : files.files())
      paths.push_back(file->path());
    facts.push_back(describeFiles("--weights", paths));
  }
  return facts;
}

Session::Session(const PlanFile &plan, Fabric &fabric,
                 const SessionOptions &options)
    : impl(std::make_unique<Impl>(plan, fabric, options)) {}

Session::~Session() = default;

int Session::rank() const { return impl->place.fabric.rank(); }
int Session::worldSize() const { return impl->place.fabric.worldSize(); }
bool Session::isInProcess() const { return impl->isInProcess; }
const plan::PlanT &Session::plan() const { return impl->plan; }
Fabric &Session::fabric() const { return impl->place.fabric; }

StepResult Session::step() {
  for (;;)
    if (std::optional<StepResult> result = microBatch())
      return *result;
}

uint64_t Session::microBatches() const { return impl->programs.microBatches; }

std::optional<StepResult> Session::microBatch() { return microBatch({}); }

std::optional<StepResult>
Session::microBatch(std::span<const GivenInput> inputs) {
  if (impl->grains && !inputs.empty())
    throw Error(ErrorId::RuntimeUnsupported,
                "a step of grains (fsdp_config.grains) reads its rows from "
                "data, found inputs that a caller gives; name the data, or "
                "compile without grains");
  return impl->runner->run(inputs);
}

std::optional<uint64_t> Session::stepsLeft() const {
  return impl->inputs->stepsFrom(impl->runner->rowsDone(),
                                 impl->loadedBatches());
}

bool Session::canEvaluate() const {
  return impl->validation && impl->validation->isRead();
}

EvalResult Session::evaluate() {
  if (!canEvaluate())
    throw Error(ErrorId::RuntimeUnsupported,
                "the artifact has no program for validation, or no data for "
                "it; compile the model with eval: {data: …} in the config");
  impl->runner->vacate();
  auto averaged = impl->average();
  EvalResult result =
      impl->validation->run(stepsDone(), impl->runner->choice());
  impl->runner->resume();
  return result;
}

double Session::evaluate(std::span<const GivenInput> inputs) {
  if (!impl->validation)
    throw Error(ErrorId::RuntimeUnsupported,
                "the artifact has no program for validation; compile the model "
                "with eval: {} in the config");
  impl->runner->vacate();
  auto averaged = impl->average();
  double loss =
      impl->validation->runGiven(inputs, stepsDone(), impl->runner->choice());
  impl->runner->resume();
  return loss;
}

void Session::loadCheckpoint(const std::string &path, bool isOwn) {
  if (!impl->runner->isBetweenSteps())
    throw Error(ErrorId::RuntimeUnsupported,
                "a checkpoint is loaded between two steps, not between two "
                "micro-batches of one");
  std::string key = "load/" + std::to_string(++impl->loads);
  std::string chosen = path;
  if (isOwn) // Nobody writes what another one may still read.
    impl->place.fabric.exchange(key, "");
  else
    chosen = *agreeOnCheckpoint(impl->place.fabric, path,
                                /*mayBeMissing=*/false, key);
  CheckpointLoader checkpoint(impl->plan, rank(), chosen);
  checkpoint.load(impl->place.arenas);
  impl->place.fabric.exchange(key + "/done", "");
  impl->loadedFrom = chosen;
  if (!checkpoint.manifest() || !isTraining())
    return;
  beginAverages(
      impl->plan, rank(), impl->place.arenas,
      [&](const plan::StateT &state) { return !checkpoint.has(state); });
  impl->continueFrom(*checkpoint.manifest(), std::nullopt);
}

bool Session::isTraining() const { return impl->programs.isTraining(); }

uint64_t Session::stepsDone() const { return impl->runner->stepsDone(); }

uint64_t Session::rowsRead() const { return impl->runner->rowsDone(); }

const std::string &Session::loadedFrom() const { return impl->loadedFrom; }

const Arenas &Session::arenas() const { return impl->place.arenas; }

const std::string &Session::planHash() const { return impl->planHash; }

uint64_t Session::seed() const { return impl->seed; }

std::pair<double, std::string> Session::learningRate() const {
  return impl->rates->describe();
}

const std::vector<OutputTensor> &Session::outputs() const {
  if (impl->grains)
    throw Error(ErrorId::RuntimeUnsupported,
                "a step of grains (fsdp_config.grains) gives the numbers in "
                "its metrics alone, found somebody who wants its outputs; "
                "compile without grains");
  return impl->runner->outputs();
}

const OutputTensor &Session::output(std::string_view name) const {
  std::string names;
  for (const OutputTensor &output : outputs()) {
    if (output.name == name)
      return output;
    names += (names.empty() ? "'" : ", '") + output.name + "'";
  }
  throw Error(ErrorId::OutputNotKept,
              "the artifact keeps no output '" + std::string(name) + "'" +
                  (names.empty() ? "" : ", but " + names) +
                  "; compile the model with --output=" + std::string(name));
}

void Session::setInput(const std::string &name,
                       std::span<const std::byte> bytes) {
  impl->inputs->set(name, std::nullopt, bytes);
}

void Session::setInput(const std::string &name, std::span<const int64_t> shape,
                       std::span<const std::byte> bytes) {
  impl->inputs->set(name, std::vector<int64_t>(shape.begin(), shape.end()),
                    bytes);
}

uint64_t Session::findGreatest(uint64_t number) {
  ProgramAgreement *choice = impl->runner->choice();
  return choice ? choice->findGreatest(number, stepsDone()) : number;
}

bool Session::choosesPrograms() const { return impl->inputs->isChoosing(); }

uint64_t Session::batchesPerStep() const { return impl->stepBatches(); }

int64_t Session::samplesPerStep() const {
  return impl->inputs->batchRows() * static_cast<int64_t>(impl->stepBatches());
}

MemoryUse Session::memory() const {
  return {impl->plan.memory->peak, peakOf(impl->plan, plan::MemorySpace::host),
          getScratchBound(impl->plan),
          impl->place.scratch->bytes() + impl->place.memory.missedPeak(),
          impl->place.transfers.stagingBytes() + impl->inputs->memory() +
              impl->place.device->workspaceBytes() +
              (impl->validation ? impl->validation->memory() : 0)};
}

void Session::record(ProfileRecorder *recorder) {
  impl->runner->recorder = recorder;
}

DeviceActivities *Session::activities() const {
  return impl->place.device->activities();
}

void Session::exportWeights(const std::string &path, uint64_t shardBytes,
                            const std::vector<std::string> &without,
                            Exported what) {
  impl->exportTo(path, shardBytes, what, without);
}

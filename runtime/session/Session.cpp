//===- Session.cpp - A compiled training step on one rank -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/session/Session.h"

#include "plan/DType.h"
#include "plan/Grains.h"
#include "plan/Groups.h"
#include "plan/Reader.h"
#include "plan/Shape.h"
#include "plan/Target.h"
#include "runtime/checkpoint/Loader.h"
#include "runtime/comm/flights/FlightRing.h"
#include "runtime/data/DataOptions.h"
#include "runtime/device/Arenas.h"
#include "runtime/device/Device.h"
#include "runtime/device/PlannedAllocator.h"
#include "runtime/exec/Executor.h"
#include "runtime/exec/SharedStates.h"
#include "runtime/exec/Transfers.h"
#include "runtime/log/Log.h"
#include "runtime/profile/Recorder.h"
#include "runtime/session/Devices.h"
#include "runtime/session/Inputs.h"
#include "runtime/session/LearningRates.h"
#include "runtime/session/NonFinitePolicy.h"
#include "runtime/session/Programs.h"
#include "runtime/session/RunAgreement.h"
#include "runtime/session/Validation.h"
#include "runtime/states/Export.h"
#include "runtime/states/ModelFile.h"
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
#include <map>
#include <optional>
#include <utility>

#include <malloc.h>

using namespace fsdp;

static constexpr const char *kLoss = "loss";
static constexpr const char *kGradNorm = "grad_norm";

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
  ~Impl() {
    device->finish();
    copies.reset(); // what a failed step has started reads its instructions
  }

  /// One program of the entry.
  struct Prepared {
    std::unique_ptr<Executor> executor;
    std::vector<OutputTensor> outputs;
    /// Results that are numbers of all ranks.
    std::vector<std::pair<std::string, const plan::BindingT *>> metrics;
    // What lies where the host cannot reach it:
    std::vector<std::unique_ptr<std::byte[]>> copies; ///< by output
    std::vector<const char *> places;
    std::optional<uint64_t> copiedAt; ///< micro-batch
  };
  Prepared prepare(const plan::ProgramT &program);
  LearningRates makeRates(SessionOptions options) const;
  void prepareValidation(const SessionOptions &options,
                         const InputSources &training);
  std::vector<RunFact> describeSources(const SessionOptions &options) const;
  void rehearse();
  void initialize(const SessionOptions &options);
  void continueFrom(const Manifest &manifest, std::optional<uint64_t> wanted,
                    uint64_t total = 0);
  /// Throws fsdp::Error. The step's last one gives its result.
  std::optional<StepResult> runMicroBatch(std::span<const GivenInput> given);
  /// Program `picked` of those for that part of a step, on the inputs' rows.
  void runProgram(size_t part, size_t picked, uint64_t number,
                  StepResult &result);
  /// All that is known behind a step's last micro-batch.
  void finishStep(StepResult &result);
  void poisonTransients();
  const std::vector<OutputTensor> &outputs();
  /// Batches that all ranks together read in a step.
  uint64_t stepBatches() const {
    return loadedBatches() * (grains ? 1 : plan.data_parallel);
  }
  /// Those that `inputs` takes for one rank's.
  uint64_t loadedBatches() const {
    return grains ? grains->total : programs.microBatches;
  }
  void exportTo(const std::string &path, uint64_t shardBytes, Exported what) {
    fsdp::exportWeights(plan, arenas, fabric,
                        "export/" + std::to_string(exports++), path, shardBytes,
                        what);
  }
  uint64_t firstRow() const;
  void countRows();

  const plan::PlanT &plan;
  const std::string planHash;
  const std::unique_ptr<Device> device;
  Fabric &fabric;
  const bool isInProcess, poison;
  const StepPrograms programs;
  const bool isTraining;
  /// Those of this rank, of a step's.
  struct Grains {
    GrainBlock own;
    uint64_t total;
  };
  const std::optional<Grains> grains;
  Arena arena;
  std::unique_ptr<Arena> host; ///< beside the device's; null: none
  const Arenas arenas;
  std::optional<Arena> scratch;
  RankMemory memory;
  Transfers transfers;
  std::unique_ptr<Copies> copies; ///< null: there is one memory
  SharedStates shared;
  std::optional<ModelFile> model;
  std::optional<Inputs> inputs;
  std::optional<LearningRates> rates;
  NonFinitePolicy nonFinite;
  std::vector<std::vector<Prepared>> prepared; ///< by part and program
  size_t lastPart = 0, lastProgram = 0;
  std::optional<Validation> validation;
  /// Where inputs that a caller sets may change the program from step to step.
  std::optional<ProgramAgreement> agreement;
  bool hasRun = false;
  uint64_t nextMicroBatch = 0; ///< of the training
  /// By all ranks, for those before; with grains, for the steps before.
  uint64_t rowsRead = 0;
  std::string loadedFrom;
  uint64_t seed;
  uint64_t missedBefore = 0; ///< bytes, up to the step that runs
  uint64_t exports = 0, loads = 0;
  ProfileRecorder *recorder = nullptr;
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
      device(options.makeDevice ? options.makeDevice(ranks)
                                : makeDevice(plan, ranks, options.device)),
      fabric(device->fabric()), isInProcess(options.isInProcess),
      poison(options.poison), programs(findStep(plan, options.program)),
      isTraining(programs.parts[0][0]->kind == plan::ProgramKind::train),
      grains(plan.training->grains
                 ? std::optional(
                       Grains{dealGrains(plan)[getDataRank(plan, ranks.rank())],
                              plan.training->grains})
                 : std::nullopt),
      arena(plan.memory->peak, device->memory()),
      host(plan.host
               ? std::make_unique<Arena>(plan.host->peak,
                                         device->besideMemory(plan.pins_host))
               : nullptr),
      arenas(arena, host.get()),
      memory(device->torch().is_cpu() ? RankMemory::Kind::host
                                      : RankMemory::Kind::device),
      transfers(plan, fabric),
      copies(plan.host ? device->makeCopies() : nullptr),
      shared(plan, fabric, arena), nonFinite(plan, fabric, isTraining, options),
      seed(options.seed.value_or(plan.training->seed)) {
  installPlannedAllocator();
  if (needsModelFile(plan))
    model.emplace(*plan.model, options.artifactFolder, options.modelPath);
  InputSources sources{model ? &*model : nullptr,
                       chooseData(plan, options.artifactFolder,
                                  options.dataPath, options.dataOptions),
                       options.allowMissingValues, grains ? grains->total : 0,
                       programs.microBatches};
  if (grains && !isInProcess)
    agreeOnFacts(fabric, "grains", describeMachine());
  if (sources.data.files.empty()) {
    sources.data.isSample |= options.allowMissingValues;
    if (options.needsData && !sources.data.isSample)
      throw noData();
  }
  inputs.emplace(plan, programs.parts, fabric.rank(), arena, *device, sources);
  inputs->warnOfFewRows(loadedBatches());
  rates.emplace(makeRates(options));
  if (!options.weightsPaths.empty() && !needsWeights(plan))
    throw Error(ErrorId::BadUsage,
                "--weights: the artifact takes no first value from weights; "
                "compile the model with --weights, too");
  for (const auto &part : programs.parts) {
    prepared.emplace_back();
    for (const plan::ProgramT *program : part)
      prepared.back().push_back(prepare(*program));
  }
  prepareValidation(options, sources);
  if (!isInProcess)
    agreeOnFacts(fabric, "files", describeSources(options));
  memory.countWorkers();
  rehearse();
  initialize(options);
  if (programs.parts[0].size() > 1)
    agreement.emplace(fabric);
}

/// Gives states their first values, or those of a checkpoint.
void Session::Impl::initialize(const SessionOptions &options) {
  std::optional<CheckpointLoader> checkpoint;
  if (!options.checkpointPath.empty()) {
    std::optional<std::string> path = agreeOnCheckpoint(
        fabric, options.checkpointPath, options.mayLackCheckpoint);
    if (path) {
      loadedFrom = *path;
      checkpoint.emplace(plan, fabric.rank(), *path);
    } else if (fabric.rank() == 0) {
      log(LogLevel::warning, "'" + options.checkpointPath +
                                 "' holds no checkpoint: the run starts from "
                                 "scratch");
    }
  }
  auto needsValue = [&](const plan::StateT &state) {
    return !checkpoint || !checkpoint->has(state);
  };
  std::optional<WeightReader> weights;
  if (std::ranges::any_of(plan.states, [&](const auto &state) {
        return state->weight && needsValue(*state);
      }))
    weights.emplace(plan, options.artifactFolder, options.weightsPaths,
                    options.allowMissingValues);
  std::optional<RecordChecks> checks;
  if (model)
    checks.emplace(plan, *model, needsValue);
  loadStates(plan, fabric.rank(), arenas, model ? &*model : nullptr,
             weights ? &*weights : nullptr, needsValue,
             checks ? &*checks : nullptr);
  if (checks)
    checks->finish(fabric);
  if (checkpoint) {
    checkpoint->load(arenas);
    // Nobody goes on before all have what they need.
    fabric.exchange("loaded", "");
  }
  if (checkpoint && checkpoint->manifest() && isTraining)
    continueFrom(*checkpoint->manifest(), options.seed,
                 options.steps.value_or(0));
  else if (options.seed)
    setSeed(plan, arenas, seed);
}

/// `wanted`: where random sequences are to begin; `total`: steps of the whole
/// training, 0: nobody knows.
void Session::Impl::continueFrom(const Manifest &manifest,
                                 std::optional<uint64_t> wanted,
                                 uint64_t total) {
  nextMicroBatch = manifest.step * programs.microBatches;
  rowsRead = manifest.rows;
  inputs->beginStepsAt(rowsRead);
  // The one that the training began with goes on.
  if (wanted && *wanted != manifest.seed)
    setSeed(plan, arenas, seed = *wanted);
  else
    seed = manifest.seed;
  auto [lr, schedule] = rates->describe();
  bool goesOn = total == 0 || manifest.step < total;
  if (fabric.rank() == 0 && goesOn &&
      (lr != manifest.lr || schedule != manifest.schedule))
    log(LogLevel::warning,
        "the learning rate goes on as " + std::to_string(lr) + " (" + schedule +
            "), where the checkpoint was made with " +
            std::to_string(manifest.lr) + " (" + manifest.schedule + ")");
}

Session::Impl::Prepared Session::Impl::prepare(const plan::ProgramT &program) {
  Prepared result;
  result.executor =
      std::make_unique<Executor>(plan, program, arenas, memory, transfers,
                                 &shared, fabric.rank(), *device, copies.get());
  for (const auto &binding : program.results) {
    const std::string &name = binding->output;
    // A training program reports these two as means over the ranks.
    if (isTraining && (name == kLoss || name == kGradNorm)) {
      result.metrics.emplace_back(name, binding.get());
    } else if (!binding->metric.empty()) {
      result.metrics.emplace_back(binding->metric, binding.get());
    } else if (!name.empty()) {
      const plan::ValueT &value = *program.values[binding->value];
      const at::Tensor &tensor = result.executor->getResult(*binding);
      auto *begin = static_cast<const std::byte *>(tensor.const_data_ptr());
      uint64_t bytes = *checkedExtent(value.shape, {}, dtypeBytes(value.dtype));
      if (!arena.isHost()) {
        result.places.push_back(reinterpret_cast<const char *>(begin));
        result.copies.push_back(std::make_unique<std::byte[]>(bytes));
        begin = result.copies.back().get();
      }
      result.outputs.push_back(
          {name, dtypeName(value.dtype), value.shape, {begin, bytes}});
    }
  }
  return result;
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
  return LearningRates(plan, arenas, options);
}

void Session::Impl::prepareValidation(const SessionOptions &options,
                                      const InputSources &training) {
  std::vector<LossProgram> found;
  if (isTraining)
    for (const plan::ProgramT *program :
         findValidation(plan, programs.parts[0]))
      found.push_back(
          {program, std::make_unique<Executor>(
                        plan, *program, arenas, memory, transfers, &shared,
                        fabric.rank(), *device, copies.get())});
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
  validation.emplace(plan, std::move(found), fabric.rank(), arena, *device,
                     sources, batches);
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

void Session::Impl::rehearse() {
  std::vector<Executor *> executors;
  for (const auto &part : prepared)
    for (const Prepared &program : part)
      executors.push_back(program.executor.get());
  if (validation)
    for (const LossProgram &program : validation->programs())
      executors.push_back(program.executor.get());
  // Zeros are valid as indices, whatever they point into.
  for (Executor *executor : executors) {
    device->rehearse(*executor);
    arena.clear();
    if (host)
      host->clear();
  }
  // What small temporaries have left on the heap; large ones left nothing.
  malloc_trim(0);
  device->settle();
  // As much on all ranks, so that memory is the same everywhere.
  size_t bytes = 0;
  for (const std::string &each :
       fabric.exchange("scratch", std::to_string(memory.scratchNeeded())))
    bytes = std::max<size_t>(bytes, std::stoull(each));
  scratch.emplace(bytes, device->memory());
  memory.setScratch(scratch->at(0), bytes);
}

/// Of the micro-batch that comes next, in the data's order.
uint64_t Session::Impl::firstRow() const {
  if (!grains)
    return rowsRead;
  // A rank without a grain for it reads its last one again.
  uint64_t number = std::min<uint64_t>(nextMicroBatch % programs.microBatches,
                                       grains->own.count - 1);
  return rowsRead + (grains->own.first + number) *
                        static_cast<uint64_t>(inputs->batchRows());
}

/// Of a micro-batch that has run.
void Session::Impl::countRows() {
  if (!grains)
    rowsRead += inputs->globalRows();
  else if (nextMicroBatch % programs.microBatches == 0)
    rowsRead += grains->total * static_cast<uint64_t>(inputs->batchRows());
}

void Session::Impl::poisonTransients() {
  if (!poison)
    return;
  if (copies)
    copies->join(); // the host writes beside the device
  for (const Arena *each : {&arenas.device(), arenas.host()}) {
    if (!each)
      continue;
    std::map<uint64_t, uint64_t> owned;
    for (const auto &state : plan.states)
      if (&arenas.of(*state) == each)
        owned[state->offset] =
            std::max(owned[state->offset], state->offset + state->bytes);
    owned[each->bytes()] = each->bytes();
    uint64_t begin = 0;
    for (auto [offset, end] : owned) {
      // All bits set are a NaN in every floating-point type.
      if (begin < offset)
        each->fill(begin, 0xff, offset - begin);
      begin = std::max(begin, end);
    }
  }
  inputs->forget();
}

static void loadInputs(Inputs &inputs, uint64_t row, size_t part,
                       ProfileRecorder *recorder) {
  if (!recorder)
    return inputs.load(row, part);
  ProfileRecorder::Marked marked(*recorder, DeviceMark::kInputs);
  inputs.load(row, part);
  recorder->endLoading();
}

std::optional<StepResult>
Session::Impl::runMicroBatch(std::span<const GivenInput> given) {
  inputs->lend(given);
  const uint64_t count = programs.microBatches, number = nextMicroBatch % count;
  StepResult result;
  result.step = nextMicroBatch / count;
  size_t part = programs.partOf(number);
  size_t picked = inputs->pick(firstRow());
  // What a file or the samples say cannot change after the first micro-batch.
  if (agreement && (inputs->isSet() || !hasRun))
    agreement->check(picked, programs.parts[part], result.step);
  hasRun = true;
  poisonTransients();
  if (number == 0)
    transfers.resetTraffic();
  runProgram(part, picked, number, result);
  lastPart = part;
  lastProgram = picked;
  ++nextMicroBatch;
  countRows();
  inputs->loadAhead(firstRow());
  if (nextMicroBatch % count != 0)
    return std::nullopt;
  finishStep(result);
  return result;
}

void Session::Impl::runProgram(size_t part, size_t picked, uint64_t number,
                               StepResult &result) {
  const uint64_t step = result.step;
  const plan::ProgramT &program = *programs.parts[part][picked];
  if (FlightRing *ring = fabric.flights())
    ring->beginMicroBatch(step, static_cast<uint32_t>(number));
  if (recorder)
    recorder->beginRun(step, number, program);
  loadInputs(*inputs, firstRow(), part, recorder);
  if (isTraining) {
    std::optional<double> lr = rates->set(step);
    result.lr = lr ? lr : plan.training->lr;
  }
  Executor &executor = *prepared[part][picked].executor;
  executor.setMicroBatch(number);
  if (nonFinite.isTracing()) {
    NonFiniteTrace trace(program, executor.tensors());
    executor.run(step, trace);
    nonFinite.note(program, executor, trace);
  } else {
    device->run(executor, step, recorder);
  }
  if (recorder)
    recorder->endRun();
}

void Session::Impl::finishStep(StepResult &result) {
  const Prepared &last = prepared[lastPart][lastProgram];
  result.program = programs.parts[lastPart][lastProgram]->name;
  uint64_t missed = memory.missedBytes();
  result.unplannedBytes = missed - std::exchange(missedBefore, missed);
  std::vector<at::Tensor> tensors;
  for (const auto &entry : last.metrics)
    tensors.push_back(last.executor->getResult(*entry.second));
  std::vector<double> numbers = device->readNumbers(tensors);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const std::string &name = last.metrics[i].first;
    if (name == kLoss)
      result.loss = numbers[i];
    else if (name == kGradNorm && isTraining)
      result.gradNorm = numbers[i];
    else
      result.metrics.emplace_back(name, numbers[i]);
  }
  if (device->isHost())
    result.exposedSeconds = transfers.secondsWaited();
  for (const auto &[key, traffic] : transfers.traffic())
    result.collectives.push_back({std::string(key.second),
                                  getGroupLabel(key.first), traffic.calls,
                                  traffic.bytes});
  if (isTraining)
    nonFinite.judge(result, arena);
}

Session::Session(const PlanFile &plan, Fabric &fabric,
                 const SessionOptions &options)
    : impl(std::make_unique<Impl>(plan, fabric, options)) {}

Session::~Session() = default;

int Session::rank() const { return impl->fabric.rank(); }
int Session::worldSize() const { return impl->fabric.worldSize(); }
bool Session::isInProcess() const { return impl->isInProcess; }
const plan::PlanT &Session::plan() const { return impl->plan; }
Fabric &Session::fabric() const { return impl->fabric; }

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
  return impl->runMicroBatch(inputs);
}

std::optional<uint64_t> Session::stepsLeft() const {
  return impl->inputs->stepsFrom(impl->rowsRead, impl->loadedBatches());
}

bool Session::canEvaluate() const {
  return impl->validation && impl->validation->isRead();
}

EvalResult Session::evaluate() {
  if (!canEvaluate())
    throw Error(ErrorId::RuntimeUnsupported,
                "the artifact has no program for validation, or no data for "
                "it; compile the model with eval: {data: …} in the config");
  impl->poisonTransients();
  EvalResult result = impl->validation->run(
      stepsDone(), impl->agreement ? &*impl->agreement : nullptr);
  impl->inputs->forget();
  impl->missedBefore = impl->memory.missedBytes();
  return result;
}

double Session::evaluate(std::span<const GivenInput> inputs) {
  if (!impl->validation)
    throw Error(ErrorId::RuntimeUnsupported,
                "the artifact has no program for validation; compile the model "
                "with eval: {} in the config");
  impl->poisonTransients();
  double loss = impl->validation->runGiven(
      inputs, stepsDone(), impl->agreement ? &*impl->agreement : nullptr);
  impl->inputs->forget();
  impl->missedBefore = impl->memory.missedBytes();
  return loss;
}

void Session::loadCheckpoint(const std::string &path, bool isOwn) {
  if (impl->nextMicroBatch % microBatches() != 0)
    throw Error(ErrorId::RuntimeUnsupported,
                "a checkpoint is loaded between two steps, not between two "
                "micro-batches of one");
  std::string key = "load/" + std::to_string(++impl->loads);
  std::string chosen = path;
  if (isOwn) // Nobody writes what another one may still read.
    impl->fabric.exchange(key, "");
  else
    chosen =
        *agreeOnCheckpoint(impl->fabric, path, /*mayBeMissing=*/false, key);
  CheckpointLoader checkpoint(impl->plan, rank(), chosen);
  checkpoint.load(impl->arenas);
  impl->fabric.exchange(key + "/done", "");
  impl->loadedFrom = chosen;
  if (checkpoint.manifest() && isTraining())
    impl->continueFrom(*checkpoint.manifest(), std::nullopt);
}

bool Session::isTraining() const { return impl->isTraining; }

uint64_t Session::stepsDone() const {
  return impl->nextMicroBatch / microBatches();
}

uint64_t Session::rowsRead() const { return impl->rowsRead; }

const std::string &Session::loadedFrom() const { return impl->loadedFrom; }

const Arenas &Session::arenas() const { return impl->arenas; }

const std::string &Session::planHash() const { return impl->planHash; }

uint64_t Session::seed() const { return impl->seed; }

std::pair<double, std::string> Session::learningRate() const {
  return impl->rates->describe();
}

const std::vector<OutputTensor> &Session::Impl::outputs() {
  Prepared &last = prepared[lastPart][lastProgram];
  if (!last.copies.empty() && last.copiedAt != nextMicroBatch && hasRun) {
    for (size_t i = 0; i < last.copies.size(); ++i)
      device->memory().read(last.copies[i].get(), last.places[i],
                            last.outputs[i].bytes.size());
    last.copiedAt = nextMicroBatch;
  }
  return last.outputs;
}

const std::vector<OutputTensor> &Session::outputs() const {
  if (impl->grains)
    throw Error(ErrorId::RuntimeUnsupported,
                "a step of grains (fsdp_config.grains) gives the numbers in "
                "its metrics alone, found somebody who wants its outputs; "
                "compile without grains");
  return impl->outputs();
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
  return impl->agreement ? impl->agreement->findGreatest(number, stepsDone())
                         : number;
}

bool Session::choosesPrograms() const { return impl->inputs->isChoosing(); }

uint64_t Session::batchesPerStep() const { return impl->stepBatches(); }

int64_t Session::samplesPerStep() const {
  return impl->inputs->batchRows() * static_cast<int64_t>(impl->stepBatches());
}

MemoryUse Session::memory() const {
  return {impl->plan.memory->peak, peakOf(impl->plan, plan::MemorySpace::host),
          getScratchBound(impl->plan),
          impl->scratch->bytes() + impl->memory.missedPeak(),
          impl->transfers.stagingBytes() + impl->inputs->memory() +
              impl->device->workspaceBytes() +
              (impl->validation ? impl->validation->memory() : 0)};
}

void Session::record(ProfileRecorder *recorder) { impl->recorder = recorder; }

DeviceActivities *Session::activities() const {
  return impl->device->activities();
}

void Session::exportWeights(const std::string &path, uint64_t shardBytes) {
  impl->exportTo(path, shardBytes, Exported::All);
}

void Session::exportMerged(const std::string &path, uint64_t shardBytes) {
  impl->exportTo(path, shardBytes, Exported::Merged);
}

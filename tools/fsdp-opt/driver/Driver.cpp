//===- Driver.cpp - What fsdp-opt does ----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/driver/Driver.h"

#include "plan/Print.h"
#include "support/Exceptions.h"
#include "tools/fsdp-opt/auto/AutoSchedule.h"
#include "tools/fsdp-opt/auto/Budget.h"
#include "tools/fsdp-opt/compare/Compare.h"
#include "tools/fsdp-opt/compile/Artifact.h"
#include "tools/fsdp-opt/compile/Compile.h"
#include "tools/fsdp-opt/compile/ConfigNotes.h"
#include "tools/fsdp-opt/compile/DataInputs.h"
#include "tools/fsdp-opt/compile/FirstValues.h"
#include "tools/fsdp-opt/compile/Mode.h"
#include "tools/fsdp-opt/compile/Program.h"
#include "tools/fsdp-opt/compile/Worlds.h"
#include "tools/fsdp-opt/driver/Registration.h"
#include "tools/fsdp-opt/explain/Explain.h"
#include "tools/fsdp-opt/input/CommandLine.h"
#include "tools/fsdp-opt/input/Diagnostics.h"
#include "tools/fsdp-opt/input/Files.h"
#include "tools/fsdp-opt/input/InputFile.h"
#include "tools/fsdp-opt/input/Progress.h"
#include "tools/fsdp-opt/predict/PlanViews.h"
#include "tools/fsdp-opt/predict/Predicted.h"
#include "tools/fsdp-opt/remarks/Remarks.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <filesystem>

#include <unistd.h>

using namespace fsdp;
using namespace mlir;

namespace {
/// What stands above the picture: the file's name says enough.
void writeMemoryMap(const CommandLine &line, ModuleOp module) {
  if (line.memoryMap.empty())
    return;
  std::string title = std::filesystem::path(line.input).filename().string();
  writeOutput(line.memoryMap, makeMemoryMap(module, title));
}

/// Passes and options of MLIR on a program, as mlir-opt runs them. Returns
/// false after a failure, which MLIR has described.
bool runPlainOpt(const CommandLine &line, DialectRegistry &registry,
                 std::optional<std::string> captured) {
  auto config = MlirOptMainConfig::createFromCLOptions();
  // Lists need no input, which may be a terminal.
  std::string input;
  if (captured)
    input = std::move(*captured);
  else if (!config.shouldShowDialects() && !config.shouldListPasses())
    input = readProgramBytes(line.input);
  // Unlike text, bytecode is parsed again in no time and keeps locations.
  bool isReadAgain = line.outputKind == OutputKind::Artifact ||
                     !line.memoryMap.empty() ||
                     (captured && line.printsToFile());
  if (line.outputKind == OutputKind::Bytecode || isReadAgain)
    config.emitBytecode(true);
  std::string output;
  llvm::raw_string_ostream stream(output);
  if (failed(MlirOptMain(stream,
                         llvm::MemoryBuffer::getMemBuffer(input, line.input),
                         registry, config)))
    return false;
  if (isReadAgain) {
    MLIRContext context(registry);
    ParserConfig parser(&context);
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(output, parser);
    if (!module)
      throw Error(ErrorId::NoArtifact,
                  "an artifact, a picture or a captured program is one "
                  "program; these options print none, or several");
    if (line.outputKind == OutputKind::Artifact || !line.memoryMap.empty())
      verifyAddresses(*module);
    if (line.outputKind == OutputKind::Artifact)
      output = makeArtifact(*module, line.output);
    else
      output = printProgram(*module, line.outputKind,
                            captured && line.printsToFile());
    writeMemoryMap(line, *module);
  }
  writeOutput(line.output, output);
  return true;
}

/// Writes "DIR/1-captured.mlir" and its like, if a folder was asked for.
void saveStage(const CommandLine &line, llvm::StringRef stage,
               ModuleOp module) {
  if (line.stagesFolder.empty())
    return;
  std::filesystem::path folder(line.stagesFolder);
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure)
    throw Error(ErrorId::FileNotWritable,
                "folder '" + line.stagesFolder +
                    "' cannot be made: " + failure.message());
  writeOutput((folder / (stage + ".mlir").str()).string(),
              printProgram(module, OutputKind::Text));
}

/// Model or captured program in, what the config asks for out.
void compile(MLIRContext &context, const CommandLine &line) {
  LoadedConfig loaded =
      parseConfig(readInput(line.config, "the config", kMaxConfigBytes),
                  line.config, line.world);
  addConfigNotes(loaded, line.verbose);
  if (!line.cluster.empty())
    loaded.config.cluster = line.cluster;
  std::optional<Cluster> cluster; // better refused now than after the work
  if (!line.planViews.empty() || loaded.config.memoryBudget ||
      loaded.config.planner != Planner::Default)
    cluster = loadCluster(loaded.config, line.measured);
  else if (!line.cluster.empty() || !line.measured.empty())
    throw Error(ErrorId::BadUsage,
                std::string(line.cluster.empty() ? "--measured" : "--cluster") +
                    " says what the step is predicted for, and nothing asks "
                    "for that; add --print-plan, or 'schedule: auto' or "
                    "'memory_budget' to the config");
  std::optional<Progress> progress(std::in_place);
  OwningOpRef<ModuleOp> module = readProgramFor(context, line, loaded);
  saveStage(line, "1-captured", *module);
  for (const std::string &note :
       resolveFirstValues(*module, loaded.config, line.weights))
    addNote("note: " + note);
  std::optional<Predicted> compiled;
  std::vector<std::string> reasons;
  if (cluster && loaded.config.planner != Planner::Default) {
    DecidedSchedule decided = decideSchedule(*module, loaded.config, *cluster);
    loaded.config = std::move(decided.config);
    reasons = std::move(decided.reasons);
    for (const std::string &reason : reasons)
      addNote("note: " + reason);
    compiled = std::move(decided.compiled);
  }
  // Of what is kept, not of what was tried on the way.
  RemarkCollection remarks(context);
  remarkAttention(*module);
  // Stages are seen, and remarks made, while it is compiled.
  bool isCompiled =
      compiled && line.stagesFolder.empty() && !context.getRemarkEngine();
  if (isCompiled)
    module = std::move(compiled->module);
  if (!reasons.empty())
    remarkChoice(*module, reasons);
  if (!isCompiled)
    compileProgram(*module, loaded.config,
                   [&](llvm::StringRef stage, ModuleOp program) {
                     saveStage(line, stage, program);
                     // The order of the ops is settled there.
                     if (stage == "3-scheduled")
                       remarkSchedule(program);
                   });

  Progress::enter("making the artifact");
  // All is made before anything is written.
  bool isArtifact = line.outputKind == OutputKind::Artifact;
  std::string output =
      isArtifact ? makeArtifact(*module, line.output)
                 : printProgram(*module, line.outputKind, line.printsToFile());
  std::vector<PlanView> views;
  if (!line.planViews.empty() || loaded.config.memoryBudget) {
    PlanFile file = PlanFile::fromBytes(
        isArtifact ? output : makeArtifact(*module, line.output), line.output);
    Prediction prediction = simulate(file.plan(), *cluster);
    if (loaded.config.memoryBudget)
      checkBudget(file.plan(), prediction, loaded.config);
    remarkPrediction(*module, file.plan(), prediction);
    views = makePlanViews(file.plan(), prediction, line);
  }
  std::string report = line.report.empty() ? "" : makeReport(*module);
  progress.reset();
  if (!line.report.empty())
    writeOutput(line.report, report);
  writeMemoryMap(line, *module);
  for (const PlanView &view : views)
    writeOutput(view.path, view.text);
  // The terminal is the prediction's if both would go there.
  if (!(line.output == "-" && llvm::is_contained(line.planViews, "-")))
    writeOutput(line.output, output);
}

/// MLIR's reader of bytecode ends the process over sizes that make no sense;
/// to a person that is a file like any other that cannot be read.
[[noreturn]] void refuseFatal(void *, const char *reason, bool) {
  std::string message =
      Error(ErrorId::ProgramNotReadable,
            std::string("the program cannot be processed: ") + reason)
          .format() +
      "\n";
  // As little as possible: memory may be used up.
  [[maybe_unused]] ssize_t written =
      write(STDERR_FILENO, message.data(), message.size());
  _exit(getErrorInfo(ErrorId::ProgramNotReadable).exitStatus);
}

int run(int argc, char **argv) {
  registerCommandLinePasses();
  DialectRegistry registry;
  registerDialects(registry);
  std::optional<CommandLine> line = parseCommandLine(argc, argv, registry);
  if (!line)
    return 0;

  // Better refused now than after the work.
  for (const std::string &output :
       {line->output, line->report, line->memoryMap})
    checkOutput(output);

  for (const std::string &output : line->planViews)
    checkOutput(output);

  if (line->inputKind == InputKind::Artifact && !line->planViews.empty()) {
    PlanFile file = WorldPlans::read(line->input).take(line->world);
    Prediction prediction =
        simulate(file.plan(), Cluster::load(line->cluster, line->measured));
    for (const PlanView &view : makePlanViews(file.plan(), prediction, *line))
      writeOutput(view.path, view.text);
    return 0;
  }
  if (line->inputKind == InputKind::Artifact) {
    WorldPlans plans = WorldPlans::read(line->input);
    writeOutput(line->output, line->world
                                  ? printArtifact(plans.take(line->world))
                                  : printArtifact(std::move(plans)));
    return 0;
  }
  if (line->isPlainOpt())
    return runPlainOpt(*line, registry, std::nullopt) ? 0 : 1;

  MLIRContext context(registry);
  if (line->explain)
    return explain(context, *line);
  if (!line->compared.empty() || !line->worlds.empty()) {
    writeOutput("-", line->worlds.empty() ? compareConfigs(context, *line)
                                          : simulateWorlds(context, *line));
    return 0;
  }
  if (!line->planWorlds.empty()) {
    CompiledWorlds compiled = compileWorlds(context, *line);
    if (!line->report.empty())
      writeOutput(line->report, compiled.report);
    writeOutput(line->output, compiled.artifact);
    return 0;
  }
  if (!line->config.empty()) {
    compile(context, *line);
    return 0;
  }
  OwningOpRef<ModuleOp> module = readProgram(context, *line, nullptr);
  addModeNotes(*module, nullptr);
  warnOfUnread(*module);
  saveStage(*line, "1-captured", *module);
  std::string program = printProgram(*module, OutputKind::Bytecode);
  return runPlainOpt(*line, registry, std::move(program)) ? 0 : 1;
}
} // namespace

int fsdp::runDriver(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  llvm::install_fatal_error_handler(refuseFatal);
  // InitLLVM has set one of its own.
  llvm::remove_bad_alloc_error_handler();
  llvm::install_bad_alloc_error_handler(refuseFatal);
  int status = 0;
  try {
    status = run(argc, argv);
  } catch (...) {
    Error error =
        toError(std::current_exception(), "fsdp-opt: ", ErrorId::StageRefused);
    llvm::errs() << error.format() << '\n';
    status = error.exitStatus();
  }
  printNotes();
  return status;
}

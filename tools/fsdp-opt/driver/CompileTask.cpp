//===- CompileTask.cpp - What a config asks for ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/driver/Tasks.h"

#include "support/Error.h"
#include "tools/fsdp-opt/auto/AutoSchedule.h"
#include "tools/fsdp-opt/auto/Budget.h"
#include "tools/fsdp-opt/compile/Artifact.h"
#include "tools/fsdp-opt/compile/Compile.h"
#include "tools/fsdp-opt/compile/ConfigNotes.h"
#include "tools/fsdp-opt/compile/FirstValues.h"
#include "tools/fsdp-opt/compile/Program.h"
#include "tools/fsdp-opt/input/Diagnostics.h"
#include "tools/fsdp-opt/input/Files.h"
#include "tools/fsdp-opt/input/InputFile.h"
#include "tools/fsdp-opt/input/Progress.h"
#include "tools/fsdp-opt/predict/ConfigFile.h"
#include "tools/fsdp-opt/predict/PlanViews.h"
#include "tools/fsdp-opt/predict/Predicted.h"
#include "tools/fsdp-opt/remarks/Remarks.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/STLExtras.h"

#include <filesystem>

using namespace fsdp;
using namespace mlir;

void fsdp::writeMemoryMap(const CommandLine &line, ModuleOp module) {
  if (line.memoryMap.empty())
    return;
  // What stands above the picture: the file's name says enough.
  std::string title = std::filesystem::path(line.input).filename().string();
  writeOutput(line.memoryMap, makeMemoryMap(module, title));
}

void fsdp::saveStage(const CommandLine &line, llvm::StringRef stage,
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

namespace {

class CompileTask {
public:
  CompileTask(MLIRContext &context, const CommandLine &line)
      : context(context), line(line),
        loaded(loadConfig(line, line.config, line.world)) {}

  void run() {
    addConfigNotes(loaded, line.verbose);
    findCluster();
    std::optional<Progress> progress(std::in_place);
    read();
    std::optional<DecidedSchedule> decided = decide();
    // What own kernels make of the step is seen beside one without them.
    if (loaded.config.kernels && showsFusion(line))
      captured = OwningOpRef<ModuleOp>(module->clone());
    // Of what is kept, not of what was tried on the way.
    RemarkCollection remarks(context);
    remarkAttention(*module);
    remarkNorms(*module, loaded.config.kernels);
    compile(std::move(decided));
    Progress::enter("making the artifact");
    make();
    progress.reset();
    write();
  }

private:
  /// Better refused now than after the work.
  void findCluster() {
    const Config &config = loaded.config;
    if (!line.planViews.empty() || config.memoryBudget || config.isDecided())
      cluster = loadCluster(config, line.measured);
    else if (!line.cluster.empty() || !line.measured.empty())
      throw Error(
          ErrorId::BadUsage,
          std::string(line.cluster.empty() ? "--measured" : "--cluster") +
              " says what the step is predicted for, and nothing asks "
              "for that; add --print-plan, or 'schedule: auto', "
              "'precision: auto' or 'memory_budget' to the config");
  }

  void read() {
    module = readProgramFor(context, line, loaded);
    saveStage(line, "1-captured", *module);
    for (const std::string &note :
         resolveFirstValues(*module, loaded.config, line.weights))
      addNote("note: " + note);
  }

  std::optional<DecidedSchedule> decide() {
    if (!loaded.config.isDecided())
      return std::nullopt;
    DecidedSchedule decided = decideSchedule(*module, loaded.config, *cluster);
    loaded.config = std::move(decided.config);
    for (const std::string &reason : decided.reasons)
      addNote("note: " + reason);
    return decided;
  }

  void compile(std::optional<DecidedSchedule> decided) {
    // Stages are seen, and remarks made, while it is compiled.
    bool isCompiled = decided && decided->compiled &&
                      line.stagesFolder.empty() && !context.getRemarkEngine();
    if (isCompiled)
      module = std::move(decided->compiled->module);
    if (decided && !decided->reasons.empty())
      remarkChoice(*module, decided->reasons);
    if (!isCompiled)
      compileProgram(*module, loaded.config,
                     [&](llvm::StringRef stage, ModuleOp program) {
                       saveStage(line, stage, program);
                       // The order of the ops is settled there.
                       if (stage == "3-scheduled")
                         remarkSchedule(program);
                     });
  }

  void make() {
    bool isArtifact = line.outputKind == OutputKind::Artifact;
    output = isArtifact
                 ? makeArtifact(*module, line.output, line.kernelCode)
                 : printProgram(*module, line.outputKind, line.printsToFile());
    if (!line.planViews.empty() || loaded.config.memoryBudget)
      predict(isArtifact ? output : makeArtifact(*module, line.output));
    if (!line.report.empty())
      report = makeReport(*module);
  }

  void predict(const std::string &artifact) {
    PlanFile file = PlanFile::fromBytes(artifact, line.output);
    Prediction prediction = simulate(file.plan(), *cluster);
    if (loaded.config.memoryBudget)
      checkBudget(file.plan(), prediction, loaded.config);
    remarkPrediction(*module, file.plan(), prediction);
    if (std::string slower = remarkWires(*module, file.plan(), *cluster);
        !slower.empty())
      addNote("note: " + slower);
    std::optional<Fusion> fusion = compareKernels(file.plan(), prediction);
    views = makePlanViews(file.plan(), prediction, line,
                          fusion ? &*fusion : nullptr);
  }

  std::optional<Fusion> compareKernels(const plan::PlanT &plan,
                                       const Prediction &prediction) {
    if (!captured)
      return std::nullopt;
    Config without = loaded.config;
    without.kernels = false;
    Predicted before = fsdp::predict(*captured, without, *cluster);
    return compareFusion(before.file.plan(), before.prediction, plan,
                         prediction);
  }

  void write() {
    if (!line.report.empty())
      writeOutput(line.report, report);
    writeMemoryMap(line, *module);
    for (const PlanView &view : views)
      writeOutput(view.path, view.text);
    // The terminal is the prediction's if both would go there.
    if (!(line.output == "-" && llvm::is_contained(line.planViews, "-")))
      writeOutput(line.output, output);
  }

  MLIRContext &context;
  const CommandLine &line;
  LoadedConfig loaded;
  std::optional<Cluster> cluster; ///< if anything is predicted
  OwningOpRef<ModuleOp> module;
  OwningOpRef<ModuleOp> captured; ///< with own kernels, if all is to be seen
  std::string output, report;
  std::vector<PlanView> views;
};

} // namespace

int fsdp::compileModel(const CommandLine &line, MLIRContext &context) {
  CompileTask(context, line).run();
  return 0;
}

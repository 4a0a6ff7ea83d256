//===- Worlds.cpp - One artifact for several numbers of ranks -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/compile/Worlds.h"

#include "passes/emit/Report.h"
#include "plan/Worlds.h"
#include "tools/fsdp-opt/compile/Artifact.h"
#include "tools/fsdp-opt/compile/Compile.h"
#include "tools/fsdp-opt/compile/ConfigNotes.h"
#include "tools/fsdp-opt/compile/FirstValues.h"
#include "tools/fsdp-opt/compile/Program.h"
#include "tools/fsdp-opt/input/Diagnostics.h"
#include "tools/fsdp-opt/input/Files.h"
#include "tools/fsdp-opt/input/Progress.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace fsdp;
using namespace mlir;

/// What is decided for a cluster is decided for one number of ranks.
static void checkOneByOne(const Config &config) {
  const char *decides = config.planner != Planner::Default ? "'schedule: auto'"
                        : config.isDecided()               ? "'precision: auto'"
                        : config.memoryBudget              ? "'memory_budget'"
                                                           : nullptr;
  if (decides)
    throw Error(ErrorId::ConfigNotSupported,
                std::string(decides) +
                    " decides for one number of ranks, and --world names "
                    "several; give it one, or write down what was decided");
}

CompiledWorlds fsdp::compileWorlds(MLIRContext &context,
                                   const CommandLine &line) {
  std::string text = readInput(line.config, "the config", kMaxConfigBytes);
  Progress progress;
  OwningOpRef<ModuleOp> captured;
  std::vector<std::string> artifacts;
  llvm::json::Array reports;
  for (int64_t world : line.planWorlds) {
    try {
      LoadedConfig loaded = parseConfig(text, line.config, world);
      const Config &config = loaded.config;
      checkOneByOne(config);
      if (!captured) {
        addConfigNotes(loaded, line.verbose);
        captured = readProgramFor(context, line, loaded);
        for (const std::string &note :
             resolveFirstValues(*captured, loaded.config, line.weights))
          addNote("note: " + note);
      }
      Progress::enterPlan();
      OwningOpRef<ModuleOp> module(cast<ModuleOp>((*captured)->clone()));
      compileProgram(*module, config, [](llvm::StringRef, ModuleOp) {});
      artifacts.push_back(makeArtifact(*module, line.output, line.kernelCode));
      if (!line.report.empty()) {
        llvm::json::Value report = buildReport(*module);
        (*report.getAsObject())["world"] = world;
        reports.push_back(std::move(report));
      }
    } catch (const Error &error) {
      throw Error(error.id(), "with --world=" + std::to_string(world) + ": " +
                                  error.what());
    }
  }
  llvm::json::Object all;
  all["plans"] = std::move(reports);
  return {joinWorlds(artifacts),
          llvm::formatv("{0:2}\n", llvm::json::Value(std::move(all)))};
}

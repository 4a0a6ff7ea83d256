//===- Artifact.cpp - What a planned program becomes --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/compile/Artifact.h"

#include "ir/fsdp/Fsdp.h"
#include "passes/Passes.h"
#include "passes/emit/EmitPlan.h"
#include "passes/emit/MemoryMap.h"
#include "passes/emit/Report.h"
#include "tools/fsdp-opt/compile/KernelCode.h"
#include "tools/fsdp-opt/input/Diagnostics.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FormatVariadic.h"

#include <filesystem>

using namespace fsdp;
using namespace mlir;

namespace {
/// A file seen from the artifact's folder. A path that leads nowhere from here
/// stays as it is: fsdp-run's --model and --weights can name the file.
std::string makeRelative(const std::string &path, const std::string &output) {
  std::error_code failure;
  if (!std::filesystem::exists(path, failure))
    return path;
  std::filesystem::path folder =
      std::filesystem::absolute(output, failure).parent_path();
  std::filesystem::path relative =
      std::filesystem::relative(path, folder, failure);
  return failure || relative.empty() ? path : relative.string();
}

/// A path or pattern of files that may not be there yet.
std::string relocate(const std::string &path, const std::string &output) {
  if (std::filesystem::path(path).is_absolute())
    return path;
  std::filesystem::path folder =
      std::filesystem::absolute(output).parent_path();
  return std::filesystem::absolute(path)
      .lexically_normal()
      .lexically_relative(folder.lexically_normal())
      .string();
}
} // namespace

void fsdp::verifyAddresses(ModuleOp module) {
  if (!module->hasAttr(kMemoryAttr))
    return;
  DiagnosticCollector diagnostics(module.getContext());
  PassManager manager(module.getContext());
  manager.addPass(createVerifyFeatures());
  manager.addPass(createVerifyPlanned());
  manager.addPass(createVerifyMemory());
  if (failed(manager.run(module)))
    throw diagnostics.makeError(ErrorId::NoArtifact, "the plan is not valid");
}

std::string fsdp::makeArtifact(ModuleOp module, const std::string &output,
                               llvm::ArrayRef<std::string> code) {
  if (!module->hasAttr(kMemoryAttr))
    throw Error(ErrorId::NoArtifact,
                "the program was not planned, so it cannot become '" + output +
                    "'; compile it with --config=FILE.yaml");
  EmitOptions options;
  options.nameFile = [&](llvm::StringRef path) {
    return makeRelative(path.str(), output);
  };
  options.namePattern = [&](llvm::StringRef pattern) {
    return relocate(pattern.str(), output);
  };
  options.complete = [&](plan::PlanT &plan) { addKernelCode(plan, code); };
  DiagnosticCollector diagnostics(module.getContext());
  FailureOr<std::string> bytes = emitArtifact(module, options);
  if (failed(bytes))
    throw diagnostics.makeError(ErrorId::NoArtifact,
                                "the program cannot become an artifact");
  return std::move(*bytes);
}

std::string fsdp::makeReport(ModuleOp module) {
  return llvm::formatv("{0:2}\n", buildReport(module));
}

std::string fsdp::makeMemoryMap(ModuleOp module, const std::string &title) {
  if (!module->hasAttr(kMemoryAttr))
    throw Error(ErrorId::NoArtifact,
                "the program was not planned, so it has no addresses to draw; "
                "compile it with --config=FILE.yaml");
  return drawMemoryMap(module, title);
}

//===- Predicted.cpp - A compile and how it will run ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/predict/Predicted.h"

#include "support/Error.h"
#include "tools/fsdp-opt/compile/Artifact.h"
#include "tools/fsdp-opt/compile/Compile.h"
#include "tools/fsdp-opt/input/Progress.h"

using namespace fsdp;
using namespace mlir;

Cluster fsdp::loadCluster(const Config &config, const std::string &profile) {
  if (!config.cluster.empty())
    return Cluster::load(config.cluster, profile);
  if (config.target.device == Target::Device::Cpu)
    return Cluster::load("cpu", profile);
  throw Error(ErrorId::ConfigMissingKey,
              "predictions need to know the hardware; add 'cluster', such as "
              "cluster: h100x8, to the config, or --cluster=h100x8");
}

Predicted fsdp::predict(ModuleOp module, const Config &config,
                        const Cluster &cluster) {
  Progress::enterPlan();
  OwningOpRef<ModuleOp> copy(cast<ModuleOp>(module->clone()));
  compileProgram(*copy, config, [](llvm::StringRef, ModuleOp) {});
  // Addresses and lifetimes count, not where files are.
  PlanFile file = PlanFile::fromBytes(makeArtifact(*copy, "step.fsdp"), "step");
  Prediction prediction = simulate(file.plan(), cluster);
  return {config, std::move(file), std::move(prediction), std::move(copy)};
}

std::optional<Predicted> fsdp::tryPredict(ModuleOp module, const Config &config,
                                          const Cluster &cluster) {
  try {
    return predict(module, config, cluster);
  } catch (const Error &error) {
    if (error.id() != ErrorId::StageRefused)
      throw;
    return std::nullopt;
  }
}

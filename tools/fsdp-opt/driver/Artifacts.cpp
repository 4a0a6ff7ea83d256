//===- Artifacts.cpp - What is done with an artifact ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/driver/Tasks.h"

#include "plan/Print.h"
#include "tools/fsdp-opt/input/Files.h"
#include "tools/fsdp-opt/predict/PlanViews.h"

using namespace fsdp;

int fsdp::printArtifactFile(const CommandLine &line) {
  WorldPlans plans = WorldPlans::read(line.input);
  writeOutput(line.output, line.world ? printArtifact(plans.take(line.world))
                                      : printArtifact(std::move(plans)));
  return 0;
}

int fsdp::predictArtifact(const CommandLine &line) {
  PlanFile file = WorldPlans::read(line.input).take(line.world);
  Prediction prediction =
      simulate(file.plan(), Cluster::load(line.cluster, line.measured));
  for (const PlanView &view : makePlanViews(file.plan(), prediction, line))
    writeOutput(view.path, view.text);
  return 0;
}

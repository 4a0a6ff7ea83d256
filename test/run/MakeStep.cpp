//===- MakeStep.cpp - An artifact for tests of fsdp-run -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Reader.h"
#include "plan/Writer.h"
#include "test/unit/runtime/TinyModel.h"

#include <cstdio>
#include <cstdlib>
#include <string>

/// make-step FOLDER WORLD [LR [DEVICE]] writes FOLDER/model.pt2 and
/// FOLDER/step.fsdp.
int main(int argc, char **argv) {
  if (argc < 3 || argc > 5) {
    std::fprintf(stderr, "usage: make-step FOLDER WORLD [LR [DEVICE]]\n");
    return 2;
  }
  fsdp::test::TinyModel model;
  model.worldSize = std::atoi(argv[2]);
  if (argc > 3)
    model.lr = std::atof(argv[3]);
  model.write(argv[1]);
  if (argc > 4) {
    std::string artifact = std::string(argv[1]) + "/step.fsdp";
    fsdp::plan::PlanT plan = fsdp::PlanFile::read(artifact).plan();
    plan.training->device = argv[4];
    fsdp::writePlan(plan, artifact);
  }
}

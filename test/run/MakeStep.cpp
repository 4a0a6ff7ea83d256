//===- MakeStep.cpp - An artifact for tests of fsdp-run -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/runtime/TinyModel.h"

#include <cstdio>
#include <cstdlib>

/// make-step FOLDER WORLD [LR] writes FOLDER/model.pt2 and FOLDER/step.fsdp.
int main(int argc, char **argv) {
  if (argc != 3 && argc != 4) {
    std::fprintf(stderr, "usage: make-step FOLDER WORLD [LR]\n");
    return 2;
  }
  fsdp::test::TinyModel model;
  model.worldSize = std::atoi(argv[2]);
  if (argc == 4)
    model.lr = std::atof(argv[3]);
  model.write(argv[1]);
}

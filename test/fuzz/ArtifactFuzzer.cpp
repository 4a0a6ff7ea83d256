//===- ArtifactFuzzer.cpp - Damaged artifacts -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The input is a whole artifact, of one plan or several.
//
//===----------------------------------------------------------------------===//

#include "plan/Print.h"
#include "plan/Worlds.h"
#include "support/Error.h"

using namespace fsdp;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  try {
    printArtifact(WorldPlans::fromBytes(
        {reinterpret_cast<const char *>(data), size}, "step.fsdp"));
  } catch (const Error &) {
  }
  return 0;
}

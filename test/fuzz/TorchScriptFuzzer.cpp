//===- TorchScriptFuzzer.cpp - Damaged TorchScript programs ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The input is the source of a module's class, as torch.jit.save writes it.
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/Harness.h"

using namespace fsdp;

/// A pickled module of the class `__torch__.Model` with `training : bool`.
static const char kModule[] = "\x80\x02"
                              "c__torch__\nModel\n"
                              ")\x81}"
                              "X\x08\0\0\0training\x88"
                              "sb.";
static const char kNoConstants[] = "\x80\x02).";

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::MemoryFile file(fuzz::makeArchive(
      {{"m/version", "3\n"},
       {"m/byteorder", "little"},
       {"m/data.pkl", {kModule, sizeof(kModule) - 1}},
       {"m/constants.pkl", {kNoConstants, sizeof(kNoConstants) - 1}},
       {"m/code/__torch__.py", {reinterpret_cast<const char *>(data), size}}}));
  fuzz::captureArchive(file.path());
  return 0;
}

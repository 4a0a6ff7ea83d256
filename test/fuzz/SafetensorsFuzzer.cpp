//===- SafetensorsFuzzer.cpp - Damaged safetensors files ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The input is a whole file. It is read as data and as weights, and every byte
// that its header claims is touched.
//
//===----------------------------------------------------------------------===//

#include "runtime/weights/WeightFiles.h"
#include "support/Error.h"
#include "test/fuzz/MemoryFile.h"

#include <cstring>

using namespace fsdp;

static volatile char sink;

static void touch(const SafetensorsFile &file) {
  for (const auto &[name, tensor] : file.tensors())
    for (uint64_t i = 0; i < tensor.bytes; i += 512)
      sink = tensor.data[i];
  file.headerHash();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::MemoryFile file({reinterpret_cast<const char *>(data), size});
  try {
    touch(SafetensorsFile(file.path()));
  } catch (const Error &) {
  }
  try {
    WeightFiles weights({file.path()});
    for (const auto &each : weights.files())
      touch(*each);
    weights.find("weight");
    weights.suggest("weight");
  } catch (const Error &) {
  }
  return 0;
}

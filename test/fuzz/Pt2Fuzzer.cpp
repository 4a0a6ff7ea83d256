//===- Pt2Fuzzer.cpp - Damaged programs of torch.export -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The input is the JSON of an archive: the program, the table of weights, the
// table of constants, with lines of "=====" between them.
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/Harness.h"

using namespace fsdp;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::vector<std::string> parts =
      fuzz::splitParts({reinterpret_cast<const char *>(data), size});
  parts.resize(3);
  const std::string weights(64, '\0');
  fuzz::MemoryFile file(fuzz::makeArchive(
      {{"m/archive_format", "pt2"},
       {"m/models/model.json", parts[0]},
       {"m/data/weights/model_weights_config.json", parts[1]},
       {"m/data/weights/weight_0", weights},
       {"m/data/weights/weight_1", weights},
       {"m/data/constants/model_constants_config.json", parts[2]},
       {"m/data/constants/tensor_0", weights}}));
  fuzz::captureArchive(file.path());
  return 0;
}

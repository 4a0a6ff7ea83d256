//===- ConfigFuzzer.cpp - Damaged configs ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The input is a config file, of this project or of another trainer.
//
//===----------------------------------------------------------------------===//

#include "support/Error.h"
#include "tools/fsdp-opt/config/Listing.h"

using namespace fsdp;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string text(reinterpret_cast<const char *>(data), size);
  for (const char *name : {"fsdp.yaml", "fsdp.toml"})
    for (std::optional<int64_t> world : {std::optional<int64_t>(), {4}})
      try {
        listKeys(readConfig(text, name, world), name);
        parseConfig(text, name, world);
      } catch (const Error &) {
      }
  return 0;
}

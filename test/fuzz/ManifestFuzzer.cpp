//===- ManifestFuzzer.cpp - Damaged manifests of checkpoints --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The input is a manifest. Its checksum is made to fit where it is JSON at all,
// so that what stands behind is read, too.
//
//===----------------------------------------------------------------------===//

#include "runtime/checkpoint/Manifest.h"
#include "support/Error.h"
#include "support/Hash.h"

#include <nlohmann/json.hpp>

using namespace fsdp;

static void read(const std::string &text) {
  try {
    Manifest manifest = parseManifest(text, "manifest.json");
    manifest.worldSize();
    // What was read can be written and read.
    parseManifest(printManifest(manifest), "manifest.json");
  } catch (const Error &) {
  }
}

/// Deep nesting is the reader's to refuse, not this one's.
static bool isFlat(const std::string &text) {
  int depth = 0, most = 0;
  for (char c : text) {
    depth += (c == '{' || c == '[') - (c == '}' || c == ']');
    most = std::max(most, depth);
  }
  return most < 100;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string text(reinterpret_cast<const char *>(data), size);
  read(text);
  if (!isFlat(text))
    return 0;
  auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  if (!json.is_object())
    return 0;
  json.erase("checksum");
  try {
    json["checksum"] = hash128(json.dump());
    read(json.dump());
  } catch (const nlohmann::json::exception &) {
    // Text that is not UTF-8.
  }
  return 0;
}

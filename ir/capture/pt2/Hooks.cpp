//===- Hooks.cpp - Hooks on gradients that an export dropped --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/pt2/Hooks.h"
#include "ir/capture/pt2/Json.h"

using namespace fsdp;
using namespace fsdp::capture;

static constexpr const char *kRecord = "extra/fsdp_opt_hooks.json";

static LostBackward readHook(const json::Object &object) {
  LostBackward hook;
  hook.kind = LostBackward::Kind::Hook;
  if (json::find(object, "parameter")) {
    hook.function =
        "of parameter '" + json::getString(object, "parameter") + "'";
  } else if (json::find(object, "module")) {
    hook.function = "of module '" + json::getString(object, "module") + "'";
  } else {
    hook.function = json::find(object, "saved")
                        ? "of what is saved for backward"
                        : "of a tensor";
    hook.location.file = json::getString(object, "file");
    hook.location.line = json::getInt(object, "line");
  }
  return hook;
}

std::vector<LostBackward>
fsdp::capture::readPt2Hooks(const ZipDirectory &archive) {
  std::vector<LostBackward> hooks;
  if (!archive.find(kRecord))
    return hooks;
  llvm::Expected<json::Value> value = json::parse(archive.readStored(kRecord));
  if (!value)
    throw Error(ErrorId::ArchiveDamaged,
                "'" + std::string(kRecord) + "' in '" + archive.path() +
                    "' is not valid JSON: " + toString(value.takeError()));
  for (const json::Value &each : json::asArray(*value))
    hooks.push_back(readHook(json::asObject(each)));
  return hooks;
}

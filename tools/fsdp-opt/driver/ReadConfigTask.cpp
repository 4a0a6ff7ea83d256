//===- ReadConfigTask.cpp - What becomes of a config file's keys ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/Error.h"
#include "tools/fsdp-opt/config/Listing.h"
#include "tools/fsdp-opt/driver/Tasks.h"
#include "tools/fsdp-opt/input/Files.h"

using namespace fsdp;

int fsdp::readConfigFile(const CommandLine &line) {
  std::string text = readInput(line.readConfig, "the config", kMaxConfigBytes);
  ReadConfig read = readConfig(text, line.readConfig, line.world);
  writeOutput("-", listKeys(read, line.readConfig));
  return read.problems.empty()
             ? 0
             : getErrorInfo(ErrorId::ConfigNotSupported).exitStatus;
}

//===- Log.cpp - What the runtime says while it works ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/log/Log.h"

#include <atomic>
#include <cstdio>

using namespace fsdp;

static std::atomic<LogLevel> maximum = LogLevel::warning;

void fsdp::setLogLevel(LogLevel level) { maximum = level; }

void fsdp::log(LogLevel level, const std::string &message) {
  static constexpr const char *kNames[] = {"error", "warning", "note", "debug"};
  if (level <= maximum)
    std::fprintf(stderr, "%s: %s\n", kNames[static_cast<int>(level)],
                 message.c_str());
}

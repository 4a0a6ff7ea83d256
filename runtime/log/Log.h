//===- Log.h - What the runtime says while it works -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_LOG_LOG_H
#define FSDP_RUNTIME_LOG_LOG_H

#include <string>

namespace fsdp {

enum class LogLevel { error, warning, info, debug };

/// Messages above `level` are dropped from now on; `warning` at first.
void setLogLevel(LogLevel level);

/// One line on stderr. Thread-safe.
void log(LogLevel level, const std::string &message);

} // namespace fsdp

#endif // FSDP_RUNTIME_LOG_LOG_H

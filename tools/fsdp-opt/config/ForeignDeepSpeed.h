//===- ForeignDeepSpeed.h - Values of DeepSpeed's files ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_CONFIG_FOREIGNDEEPSPEED_H
#define FSDP_TOOLS_FSDPOPT_CONFIG_FOREIGNDEEPSPEED_H

#include "tools/fsdp-opt/config/Reading.h"

namespace fsdp::deepspeed {

void readAuto(const Value &value);
void readStage(const Value &value);
void readOptimizerDevice(const Value &value);
void readParamsDevice(const Value &value);
void readSecondary(const Value &value);
void readMics(const Value &value);
void readBf16(const Value &value);
void readFp16(const Value &value);
void readWire(const Value &value);
void readOptimizerType(const Value &value);
void readAutoRate(const Value &value);
void readScheduleType(const Value &value);
void readWarmupType(const Value &value);
void readMaxRate(const Value &value);
void readMinRate(const Value &value);
void readMinRatio(const Value &value);
void readBatch(const Value &value);
void readCheckpointing(const Value &value);

/// Puts into the file what DeepSpeed's, which it names by `at` or holds there,
/// says and it does not. `load` reads a tree under a file's name. Throws
/// fsdp::Error (ConfigNotReadable, FileNotReadable).
void include(
    Reading &reading, const YAML::Node &at,
    const std::function<ReadConfig(const std::string &, YAML::Node)> &load);
/// The key that names it.
void readIncluded(const Value &value);

} // namespace fsdp::deepspeed

#endif // FSDP_TOOLS_FSDPOPT_CONFIG_FOREIGNDEEPSPEED_H

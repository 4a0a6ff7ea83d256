//===- GpuCalibrate.h - fsdp-run --calibrate on GPUs ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_CALIBRATE_GPUCALIBRATE_H
#define FSDP_RUNTIME_CALIBRATE_GPUCALIBRATE_H

#include "runtime/calibrate/Calibrate.h"

namespace fsdp {

/// As `calibrate`, of the GPUs of one machine: one for each process that a
/// launcher started, which NCCL connects, or a single one without a launcher.
void calibrateGpus(const CalibrateOptions &options);

} // namespace fsdp

#endif // FSDP_RUNTIME_CALIBRATE_GPUCALIBRATE_H

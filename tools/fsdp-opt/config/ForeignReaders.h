//===- ForeignReaders.h - Values of other tools' keys -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How values are read of keys of other tools that are no plain renaming. The
// rows of the table (Foreign*Keys.cpp) name them.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TOOLS_FSDPOPT_CONFIG_FOREIGNREADERS_H
#define FSDP_TOOLS_FSDPOPT_CONFIG_FOREIGNREADERS_H

#include "tools/fsdp-opt/config/Reading.h"

namespace fsdp::foreign {

// ForeignOptimizer.cpp
void readDecay(const Value &value);
void readBeta1(const Value &value);
void readBeta2(const Value &value);
void readPreference(const Value &value);
void readTokenMean(const Value &value);

// ForeignSchedule.cpp
void readWarmupSteps(const Value &value);
void readMaxSteps(const Value &value);
void readEpochs(const Value &value);
void readMinRate(const Value &value);
void readQuadraticWarmup(const Value &value);
void readConstantRatio(const Value &value);
void readMinFactor(const Value &value);
void readScheduleArguments(const Value &value);

// ForeignNumbers.cpp
void readPrecision(const Value &value);
void readFp16(const Value &value);
void readFloat8(const Value &value);
void readFloat8Gather(const Value &value);
/// All three types of mixed precision, float16 with a scale of the loss.
/// `word` is what says so.
void takePrecision(const Value &value, const std::string &dtype,
                   const std::string &word);

// ForeignSharding.cpp
void readProcesses(const Value &value);
void readUseCpu(const Value &value);
void readDistributedType(const Value &value);
void readAcceleratorConfig(const Value &value);
void readFsdpWords(const Value &value);
void readStrategy(const Value &value);

// ForeignQuantize.cpp
/// `quantize` of that kind, unless the file has that itself; with coded scales,
/// unless another key says otherwise.
void takeQuantized(const Value &value, QuantizeChoice kind,
                   bool isDouble = false);

// ForeignMemory.cpp
void readGradientCheckpointing(const Value &value);
void readOffloading(const Value &value);
void readFusedLoss(const Value &value);
void readRows(const Value &value);
void readTokens(const Value &value);

} // namespace fsdp::foreign

#endif // FSDP_TOOLS_FSDPOPT_CONFIG_FOREIGNREADERS_H

//===- ForeignReaders.h - Values of other tools' keys -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How values are read of keys of other tools that are no plain renaming. The
// table of keys (Foreign.cpp) names them.
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
void readMaxSteps(const Value &value);
void readEpochs(const Value &value);
void readMinRate(const Value &value);
void readScheduleArguments(const Value &value);

// ForeignNumbers.cpp
void readPrecision(const Value &value);
void readFp16(const Value &value);
void readFloat8(const Value &value);
void readFloat8Gather(const Value &value);
void readLoadIn4Bit(const Value &value);
void readLoadIn8Bit(const Value &value);
void readAdapter(const Value &value);

// ForeignSharding.cpp
void readProcesses(const Value &value);
void readParallelism(const Value &value);
void readFsdpWords(const Value &value);
void readStrategy(const Value &value);

// ForeignMemory.cpp
void readGradientCheckpointing(const Value &value);
void readFusedLoss(const Value &value);
void readRows(const Value &value);
void readTokens(const Value &value);

} // namespace fsdp::foreign

#endif // FSDP_TOOLS_FSDPOPT_CONFIG_FOREIGNREADERS_H

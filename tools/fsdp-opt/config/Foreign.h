//===- Foreign.h - What other tools' keys make of a config ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is decided when all keys of a file are read, since it takes several.
// Single keys are in ForeignKeys.h.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TOOLS_FSDPOPT_CONFIG_FOREIGN_H
#define FSDP_TOOLS_FSDPOPT_CONFIG_FOREIGN_H

#include "tools/fsdp-opt/config/Reading.h"

#include <optional>

namespace fsdp {

/// `optimizer: adamw_torch`, as transformers has it.
void readOptimizerWord(const Value &value, OptimizerConfig &optimizer);

/// What FSDP1's sharding_strategy, if it is given, makes of the mesh, whose
/// dp_shard is `shard` if it is given.
void applyStrategy(Reading &reading, std::optional<int64_t> &shard);

/// Lets `fsdp: auto_wrap` choose the policy, unless fsdp_config does.
void applyAutoWrap(Reading &reading);

/// Puts what other keys say of the schedule beside the scheduler.
void mergeSchedule(Reading &reading);

/// What DeepSpeed's communication_data_type, if it is given, makes of mixed
/// precision.
void applyWire(Reading &reading);

/// What becomes of the adapters that a file asks for.
void applyAdapter(Reading &reading);

/// What becomes of the base in codes that it asks for.
void applyQuantize(Reading &reading);

/// States of a paged optimizer lie on the host, unless the file says where.
void applyPaging(Reading &reading);

/// Transformers' rule of whom a weight decay spares, if it holds; once
/// everything else is checked.
void applySparing(Reading &reading);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_CONFIG_FOREIGN_H

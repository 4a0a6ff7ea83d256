//===- Passes.td - All passes of the compiler --------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_TD
#define FSDP_PASSES_TD

include "passes/kernels/Passes.td"
include "passes/memory/Passes.td"
include "passes/partition/Passes.td"
include "passes/plan/Context.td"
include "passes/plan/Passes.td"
include "passes/schedule/Passes.td"
include "passes/shard/Buckets.td"
include "passes/shard/LowPrecision.td"
include "passes/shard/Passes.td"
include "passes/verify/Passes.td"

#endif // FSDP_PASSES_TD

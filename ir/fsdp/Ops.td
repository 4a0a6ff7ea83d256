//===- Ops.td - All ops of the fsdp dialect ----------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_OPS_TD
#define FSDP_OPS_TD

include "OpsModule.td"
include "OpsLogical.td"
include "OpsEncoding.td"
include "OpsRandom.td"
include "OpsOptimizer.td"
include "OpsSchedule.td"
include "OpsPlan.td"
include "OpsKernel.td"

#endif // FSDP_OPS_TD

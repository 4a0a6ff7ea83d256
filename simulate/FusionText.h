//===- FusionText.h - What own kernels make, for people ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SIMULATE_FUSIONTEXT_H
#define FSDP_SIMULATE_FUSIONTEXT_H

#include "simulate/Fusion.h"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace fsdp {

/// Tables: the step without and with kernels, and the longest of these.
std::string printFusion(const Fusion &fusion);

/// The same, seconds and bytes; docs/Simulate.md says what stands where.
nlohmann::ordered_json describeFusion(const Fusion &fusion);

} // namespace fsdp

#endif // FSDP_SIMULATE_FUSIONTEXT_H

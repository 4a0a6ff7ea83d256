//===- AdapterFolder.h - Adapters as PEFT keeps them ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_STATES_ADAPTERFOLDER_H
#define FSDP_RUNTIME_STATES_ADAPTERFOLDER_H

#include "plan/plan_generated.h"

#include <string>

namespace fsdp {

inline constexpr const char *kAdapterWeights = "adapter_model.safetensors";
inline constexpr const char *kAdapterConfig = "adapter_config.json";

/// The text of an `adapter_config.json` beside the trained parameters of a plan
/// that has `adapter_settings`: `PeftModel.from_pretrained` then gives the same
/// layers adapters of the same form.
std::string writeAdapterConfig(const plan::PlanT &plan);

} // namespace fsdp

#endif // FSDP_RUNTIME_STATES_ADAPTERFOLDER_H

//===- AdapterNames.h - What parameters of adapters are called --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SUPPORT_ADAPTERNAMES_H
#define FSDP_SUPPORT_ADAPTERNAMES_H

#include <string_view>

namespace fsdp {

/// What PEFT's files have in front of a model's own names.
inline constexpr std::string_view kPeftPrefix = "base_model.model.";

/// Whether a component of the parameter's name begins with `lora_`, as in PEFT.
inline bool isOfAdapter(std::string_view name) {
  return name.starts_with("lora_") ||
         name.find(".lora_") != std::string_view::npos;
}

} // namespace fsdp

#endif // FSDP_SUPPORT_ADAPTERNAMES_H

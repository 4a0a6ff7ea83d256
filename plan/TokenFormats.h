//===- TokenFormats.h - What users call layouts of token files --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PLAN_TOKENFORMATS_H
#define FSDP_PLAN_TOKENFORMATS_H

#include "plan/plan_generated.h"

#include <string_view>

namespace fsdp {

/// Names of formats, each at its number but one: "recognized" has none, being
/// the default.
inline constexpr std::string_view kTokenFormats[] = {"nanogpt", "llm.c",
                                                     "megatron"};
static_assert(std::size(kTokenFormats) == size_t(plan::TokenFormat::MAX),
              "each format has a name");

/// `name` is one of `kTokenFormats`.
constexpr plan::TokenFormat getTokenFormat(std::string_view name) {
  uint8_t number = 1;
  for (std::string_view each : kTokenFormats) {
    if (each == name)
      break;
    ++number;
  }
  return static_cast<plan::TokenFormat>(number);
}
static_assert(getTokenFormat("nanogpt") == plan::TokenFormat::raw &&
                  getTokenFormat("llm.c") == plan::TokenFormat::llm_c &&
                  getTokenFormat("megatron") == plan::TokenFormat::megatron,
              "names stand in the order of their formats");

/// Element types of files that do not state theirs.
inline constexpr std::string_view kTokenTypes[] = {"uint16", "uint32"};

/// `name` is one of `kTokenTypes`.
constexpr plan::DType getTokenType(std::string_view name) {
  return name == kTokenTypes[0] ? plan::DType::u16 : plan::DType::u32;
}

/// Whether a file of that name holds samples, whatever its inputs.
constexpr bool isSamplesFile(std::string_view path) {
  return path.ends_with(".safetensors");
}

} // namespace fsdp

#endif // FSDP_PLAN_TOKENFORMATS_H

//===- ForeignTexts.h - What is said of many foreign keys -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Why keys of several tables are passed over or refused.

#ifndef FSDP_TOOLS_FSDPOPT_CONFIG_FOREIGNTEXTS_H
#define FSDP_TOOLS_FSDPOPT_CONFIG_FOREIGNTEXTS_H

#include <string_view>

namespace fsdp::foreign {

inline constexpr std::string_view run =
    "fsdp-run's options say how long to run and what to write";
inline constexpr std::string_view schedule =
    "the compiler schedules the transfers";
inline constexpr std::string_view kernels =
    "the exported program says which operators run";
inline constexpr std::string_view loading =
    "each rank reads its own rows from the model file";
inline constexpr std::string_view parallel =
    "only data, tensor and context parallelism are compiled";

} // namespace fsdp::foreign

#endif // FSDP_TOOLS_FSDPOPT_CONFIG_FOREIGNTEXTS_H

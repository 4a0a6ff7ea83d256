//===- Nearest.h - The nearest name to a misspelt one -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SUPPORT_NEAREST_H
#define FSDP_SUPPORT_NEAREST_H

#include <span>
#include <string_view>

namespace fsdp {

/// The candidate with the smallest Levenshtein distance to `name`, upper and
/// lower case being equal; empty if all are too far away to be meant.
std::string_view findNearest(std::string_view name,
                             std::span<const std::string_view> candidates);

} // namespace fsdp

#endif // FSDP_SUPPORT_NEAREST_H

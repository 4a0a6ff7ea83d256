//===- NaturalOrder.h - Names in the order that people expect ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SUPPORT_NATURALORDER_H
#define FSDP_SUPPORT_NATURALORDER_H

#include <string_view>

namespace fsdp {

/// "layers.2" before "layers.10": numbers in names count as such. A strict
/// total order: names that differ in leading zeros alone are still two.
bool isNaturallyLess(std::string_view a, std::string_view b);

} // namespace fsdp

#endif // FSDP_SUPPORT_NATURALORDER_H

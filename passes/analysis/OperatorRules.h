//===- OperatorRules.h - Tables of rules by operator ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_OPERATORRULES_H
#define FSDP_PASSES_ANALYSIS_OPERATORRULES_H

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringRef.h>

#include <cstddef>
#include <utility>

namespace fsdp {

/// The rule for the operator of `name`, "aten.index.Tensor", whatever its
/// overload, among rows such as {"index", rule}; null if there is none.
template <typename Name, typename Rule, size_t count>
Rule findOperatorRule(const std::pair<Name, Rule> (&rules)[count],
                      llvm::StringRef name) {
  name.consume_front("aten.");
  name = name.take_until([](char c) { return c == '.'; });
  const auto *rule =
      llvm::find_if(rules, [&](const auto &row) { return row.first == name; });
  return rule == std::end(rules) ? nullptr : rule->second;
}

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_OPERATORRULES_H

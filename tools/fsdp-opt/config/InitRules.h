//===- InitRules.h - Which parameter starts from what -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The config's `init`: patterns of names and initialisers by the names and with
// the defaults of torch.nn.init.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TOOLS_FSDPOPT_CONFIG_INITRULES_H
#define FSDP_TOOLS_FSDPOPT_CONFIG_INITRULES_H

#include "plan/plan_generated.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace fsdp {

/// An initialiser as it was written: "kaiming_uniform(a=2, mode=fan_out)".
struct InitCall {
  std::string name;
  std::map<std::string, double, std::less<>> numbers;
  std::map<std::string, std::string, std::less<>> words;
};

/// Reads `text`, which is also a plain number. Throws std::invalid_argument:
/// what was expected, what was found.
InitCall parseInitCall(std::string_view text);

/// What `call` amounts to for a tensor of `shape`: one number for all elements,
/// or a computation. Throws std::invalid_argument ("kaiming_uniform needs …").
std::variant<double, plan::InitializerT>
resolveInit(const InitCall &call, std::span<const int64_t> shape,
            plan::DType dtype);

/// Whether the values are random numbers.
bool isRandom(const InitCall &call);

struct InitRule {
  std::string pattern; ///< see support/Pattern.h
  InitCall call;
  std::string place; ///< "fsdp.yaml:3:5"
};

/// The last rule that matches any of `names`, or null.
const InitRule *findRule(std::span<const InitRule> rules,
                         std::span<const std::string> names);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_CONFIG_INITRULES_H

//===- Tokens.cpp - What a program reads of tokens ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Tokens.h"

#include <set>
#include <utility>

using namespace fsdp;

std::optional<TokenCount> fsdp::countTokens(const plan::PlanT &plan,
                                            const plan::ProgramT &program) {
  std::set<std::pair<int64_t, int64_t>> shapes;
  for (const auto &binding : program.arguments) {
    if (binding->input < 0)
      continue;
    const plan::InputT &input = *plan.inputs[binding->input];
    bool isNumbers =
        input.dtype == plan::DType::i64 || input.dtype == plan::DType::i32;
    if (isNumbers && input.shape.size() == 2)
      shapes.emplace(input.shape[0], input.shape[1]);
  }
  if (shapes.size() != 1)
    return std::nullopt;
  return TokenCount{shapes.begin()->first, shapes.begin()->second};
}

//===- ProgramText.h - Instructions as text ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PLAN_PROGRAMTEXT_H
#define FSDP_PLAN_PROGRAMTEXT_H

#include "plan/DType.h"
#include "plan/Instructions.h"
#include "plan/Shape.h"
#include "support/Format.h"

#include <string>
#include <vector>

namespace fsdp {

inline std::string quote(const std::string &text) { return '"' + text + '"'; }

/// "f32[4, 8]".
inline std::string typeText(plan::DType dtype,
                            const std::vector<int64_t> &shape) {
  return std::string(dtypeName(dtype)) + toString(shape);
}

template <typename Range, typename Print>
std::string join(const Range &range, Print &&print) {
  std::string text;
  for (const auto &item : range)
    text += (text.empty() ? "" : ", ") + print(item);
  return text;
}

/// "%7 : f32[2, 4] @128", "aten::mm", "(%3, %5)".
struct InstructionText {
  std::string results; ///< empty: none
  std::string name;
  std::string rest;
};

/// A program of a verified plan, in the plan's words.
class ProgramText {
public:
  ProgramText(const plan::PlanT &plan, const plan::ProgramT &program);

  const plan::PlanT &plan;

  InstructionText print(const plan::InstructionT &instruction) const;

  static std::string use(int64_t value) {
    return value < 0 ? "none" : "%" + std::to_string(value);
  }
  template <typename Values>
  static std::string uses(const Values &values) {
    return join(values, use);
  }
  std::string definition(int64_t value) const;
  template <typename Values>
  std::string definitions(const Values &values) const {
    return join(values, [&](auto value) { return definition(value); });
  }
  std::string over(uint32_t group) const {
    return " over " + plan.groups[group]->name;
  }
  std::string state(uint32_t state) const {
    return quote(plan.states[state]->name);
  }
  static std::string future(uint32_t future) {
    return "future" + std::to_string(future);
  }
  /// The results of a transfer.
  std::string promised(uint32_t future) const {
    return definitions(outputs[future]);
  }

private:
  const plan::ProgramT &program;
  std::vector<std::vector<uint32_t>> outputs; ///< by future
};

#define FSDP_INSTRUCTION(kind)                                                 \
  InstructionText print(const plan::kind##T &op, const ProgramText &text);
#include "plan/Instructions.def"

} // namespace fsdp

#endif // FSDP_PLAN_PROGRAMTEXT_H

//===- Operators.h - What artifacts may call --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An artifact names LibTorch's operators. Those that do more than compute
// tensors are never called; and some kernels trust that their operands fit each
// other, or that indices are in range, and would reach outside of them.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLAN_OPERATORS_H
#define FSDP_PLAN_OPERATORS_H

#include "plan/Trust.h"
#include "plan/plan_generated.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

/// "aten::add.Tensor", or "aten::mm" without an overload.
std::string fullName(std::string_view name, std::string_view overload);

/// Whether `name.overload`, as in "aten::add" and "Tensor", computes tensors
/// and does nothing else.
bool isAllowedOperator(std::string_view name, std::string_view overload);

/// The operands of a call by their place in the operator's schema.
class CallOperands {
public:
  CallOperands(const plan::ProgramT &program, const plan::CallT &call)
      : program(program), call(call) {}

  /// Whether a tensor is passed there.
  bool has(size_t argument) const;
  /// Of a tensor; null for anything else.
  const plan::ValueT *tensor(size_t argument) const;
  /// Of a list of tensors, some of which may be none: null.
  std::vector<const plan::ValueT *> tensors(size_t argument) const;
  /// The integers of a list or a number; empty for anything else.
  const std::vector<int64_t> &integers(size_t argument) const;
  /// Of a number; none for anything else.
  std::optional<double> number(size_t argument) const;

private:
  const plan::ProgramT &program;
  const plan::CallT &call;
};

/// Integers of a tensor that a kernel takes for places in another one.
struct IndexOperand {
  size_t argument;
  int64_t least, greatest;
  std::optional<int64_t> other; ///< also allowed
  size_t element = 0;           ///< of an argument that is a list
};

/// What is wrong with the operands of a kernel that trusts them: "expects …",
/// empty if nothing.
std::string describeOperandProblem(const std::string &op,
                                   const CallOperands &operands);

/// Operands whose values have to be looked at before each call. Those of a call
/// whose operands have no problem.
std::vector<IndexOperand> indexOperands(const std::string &op,
                                        const CallOperands &operands);

/// Those that a kernel compares with the range itself: an error on a CPU, and
/// on a GPU the end of all that runs there.
std::vector<IndexOperand> checkedIndexOperands(const std::string &op,
                                               const CallOperands &operands);

/// Checks every call of a plan that was verified. Throws fsdp::Error
/// (ArtifactNotTrusted).
void verifyOperators(const plan::PlanT &plan, Trust trust);

} // namespace fsdp

#endif // FSDP_PLAN_OPERATORS_H

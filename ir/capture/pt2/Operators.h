//===- Operators.h - Operators that a node may call -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_PT2_OPERATORS_H
#define FSDP_IR_CAPTURE_PT2_OPERATORS_H

#include "ir/capture/joint/JointGraph.h"
#include "ir/capture/pt2/Json.h"
#include "ir/capture/pt2/Regions.h"
#include "ir/capture/request/CaptureOptions.h"

#include <optional>
#include <vector>

namespace fsdp::capture {

enum class Pt2NodeKind {
  Operator,       ///< an operator of LibTorch
  Region,         ///< sub-graphs under rules of their own
  Assertion,      ///< checks metadata or data; of no effect
  NumberFunction, ///< computes a number from sizes
  SizeQuery,      ///< asks a tensor for a size: sym_size, sym_stride, …
  SizeAssertion,  ///< checks a condition on sizes
};

/// What a node calls.
struct Pt2Target {
  Pt2NodeKind kind = Pt2NodeKind::Operator;
  std::optional<c10::OperatorHandle> op;
  std::optional<Pt2Region> region;
  std::string function; ///< of a NumberFunction or SizeQuery

  /// "aten::add.Tensor", "sym_size".
  std::string describe() const;
};

/// Throws Error(id): `name` with the node's place in the model, then `why`.
[[noreturn]] void refusePt2Node(ErrorId id, const json::Object &node,
                                const std::string &name,
                                const std::string &why);

/// Resolves the node's target. Throws Error for all that can never be captured:
/// unknown and custom operators, unsupported regions, operators whose results
/// depend on data, draws of random numbers.
Pt2Target resolvePt2Target(const json::Object &node);

/// The problems of all nodes of a graph and its regions.
void findPt2Problems(const json::Object &graph,
                     std::vector<CaptureProblem> &problems);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_PT2_OPERATORS_H

//===- Remarks.h - Decisions as MLIR's remarks ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `--remarks-filter` and its like are MLIR's options. Passes emit what they
// decide (passes/analysis/Decisions.h); what is decided or known outside of
// passes is here: what `schedule: auto` chose, and what a transfer is predicted
// to cost.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TOOLS_FSDPOPT_REMARKS_REMARKS_H
#define FSDP_TOOLS_FSDPOPT_REMARKS_REMARKS_H

#include "plan/plan_generated.h"
#include "simulate/Simulator.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace fsdp {

/// "model.py:12" in a module, as MLIR has it; either may be empty.
mlir::Location makeLocation(mlir::MLIRContext *context, llvm::StringRef module,
                            llvm::StringRef source);

/// Collects remarks of `context` as MLIR's options say, until it is destroyed:
/// by then a file that they go to is complete. Without such options it does
/// nothing. Throws fsdp::Error (FileNotWritable).
class RemarkCollection {
public:
  explicit RemarkCollection(mlir::MLIRContext &context);
  ~RemarkCollection();
  RemarkCollection(const RemarkCollection &) = delete;
  RemarkCollection &operator=(const RemarkCollection &) = delete;

private:
  mlir::MLIRContext &context;
};

/// Of category `auto`: what was chosen, and why.
void remarkChoice(mlir::ModuleOp module,
                  const std::vector<std::string> &reasons);

/// Of category `attention`, for each call of a captured model: by which kernel,
/// and what its mask became; missed are those that are decomposed.
void remarkAttention(mlir::ModuleOp module);

/// Of category `norms`, for each norm that the model writes out: whether it is
/// LibTorch's, and what is gained; missed are those that stay, and why.
void remarkNorms(mlir::ModuleOp module, bool hasKernels);

/// Of category `schedule`, for each transfer of a scheduled program: behind
/// which operator it starts and why there, in front of which it is waited for,
/// and what computes beside it, at the line of the model that a gather is for,
/// or that a reduction's gradient is of.
void remarkSchedule(mlir::ModuleOp module);

/// Of category `predicted`: for each transfer how long it moves, what hides it
/// and what is exposed, at the line of the model that it is for.
void remarkPrediction(mlir::ModuleOp module, const plan::PlanT &plan,
                      const Prediction &prediction);

/// The same for each exchange of gradients in a narrow type: how long it and
/// the sum behind it take, and a reduction in float32; missed are those that
/// are slower. Returns what is to be said of these; empty: there are none.
std::string remarkWires(mlir::ModuleOp module, const plan::PlanT &plan,
                        const Cluster &cluster);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_REMARKS_REMARKS_H

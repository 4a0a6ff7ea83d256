//===- Summary.h - What a program says about its states ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_EXPLAIN_SUMMARY_H
#define FSDP_TOOLS_FSDPOPT_EXPLAIN_SUMMARY_H

#include "runtime/weights/MissingValues.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"

#include <string>
#include <vector>

namespace fsdp {

/// Tensors of one kind.
struct TensorSum {
  int64_t tensors = 0, elements = 0, bytes = 0;
};

/// The states of a captured program; unsharded sizes.
struct StatesSummary {
  TensorSum trainable, frozen, buffers, constants;
  std::vector<std::vector<std::string>> ties; ///< names of each tied tensor
  std::vector<MissingValue> missing;          ///< tensors without a first value
};
StatesSummary summarizeStates(mlir::ModuleOp module);

/// One bucket of a sharded program, in the order of its first member.
struct BucketSummary {
  std::string name, className;
  TensorSum sum;
};
std::vector<BucketSummary> summarizeBuckets(mlir::ModuleOp module);

/// "[4,64]"
std::string describeShape(mlir::RankedTensorType type);

/// "model.layers.*.mlp": the same in each layer.
std::string maskNumbers(llvm::StringRef text);

/// "x: f32[4,64]" of each input, in order; of several programs with
/// " of train/step[x.0=4]" behind it.
std::vector<std::string> describeInputs(mlir::ModuleOp module);

/// "logits: f32[4,64]" of each output that the program keeps, in order.
std::vector<std::string> describeOutputs(mlir::ModuleOp module);

/// Casts that mixed precision put in for one reason.
struct CastSummary {
  std::string what; ///< "parameters", "operands of aten::linear", …
  std::string from, to;
  int64_t count = 0;
};
std::vector<CastSummary> summarizeCasts(mlir::ModuleOp module);

/// What some calls of attention became, the first of which is in `module`.
struct AttentionSummary {
  std::string module, mask, kernel; ///< in words
  int64_t count;
};
/// Of a row of `fsdp.attention`.
std::string describeKernel(mlir::DictionaryAttr row);
/// Of a form of masks, as such a row has it.
std::string describeMask(llvm::StringRef form);
std::vector<AttentionSummary> summarizeAttention(mlir::ModuleOp module);

/// Classes of the module tree with how often they occur, most first.
std::vector<std::pair<std::string, int64_t>>
countClasses(mlir::ModuleOp module);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_EXPLAIN_SUMMARY_H

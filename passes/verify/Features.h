//===- Features.h - Features that a module asks for -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_VERIFY_FEATURES_H
#define FSDP_PASSES_VERIFY_FEATURES_H

#include "ir/features/Relations.h"

#include "ir/fsdp/Fsdp.h"

namespace fsdp {

/// What the settings of a module ask for. They do not say which keys a file
/// had: what is about these alone no module asks for.
class ModuleFeatures {
public:
  explicit ModuleFeatures(mlir::ModuleOp module);

  Asked ask(Feature feature) const;

private:
  bool anyRule(llvm::function_ref<bool(RuleAttr)> is) const; ///< of buckets
  bool cutsOtherDims() const;
  /// Not of what a program was captured with and never reads.
  bool hasDynamicLossScale() const;
  bool skipsNonFinite() const;
  bool reportsNorms() const;
  bool averagesWeights() const;
  bool validatesAverages() const;

  mlir::ModuleOp module;
  bool trains; ///< unless all of its programs only compute outputs
  ParallelAttr parallel;
  ShardsAttr shards;
  BucketsAttr buckets;
  StepAttr step;
  Float8Attr float8;
  QuantizeAttr quantize;
  OffloadAttr offload;
  OptimizerAttr optimizer;
};

} // namespace fsdp

#endif // FSDP_PASSES_VERIFY_FEATURES_H

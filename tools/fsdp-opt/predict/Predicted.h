//===- Predicted.h - A compile and how it will run --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_PREDICT_PREDICTED_H
#define FSDP_TOOLS_FSDPOPT_PREDICT_PREDICTED_H

#include "plan/Reader.h"
#include "simulate/Simulator.h"
#include "tools/fsdp-opt/config/Config.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <optional>

namespace fsdp {

/// What the config is compiled for; without a word a GPU's is not known, a
/// host's is the built-in one. Throws fsdp::Error (ConfigMissingKey), and as
/// Cluster::load.
/// `profile` is a trace whose times go before the cluster's; empty: none.
Cluster loadCluster(const Config &config, const std::string &profile);

/// One config, compiled, and its prediction.
struct Predicted {
  Config config;
  PlanFile file;
  Prediction prediction;
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< planned
};

/// Compiles a copy of the captured program. Throws fsdp::Error (StageRefused,
/// NoArtifact), and as simulate.
Predicted predict(mlir::ModuleOp module, const Config &config,
                  const Cluster &cluster);

/// The same of what nobody asked for; none where passes refuse it.
std::optional<Predicted> tryPredict(mlir::ModuleOp module, const Config &config,
                                    const Cluster &cluster);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_PREDICT_PREDICTED_H

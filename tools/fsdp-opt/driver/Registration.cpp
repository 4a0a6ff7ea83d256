//===- Registration.cpp - Dialects and passes of fsdp-opt ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/driver/Registration.h"

#include "ir/aten/Aten.h"
#include "ir/fsdp/Fsdp.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Transforms/Passes.h"

void fsdp::registerDialects(mlir::DialectRegistry &registry) {
  registry.insert<mlir::func::FuncDialect, aten::AtenDialect, FsdpDialect>();
}

void fsdp::registerCommandLinePasses() {
  registerPasses();
  registerPipelines();
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  mlir::registerInlinerPass();
  mlir::registerLocationSnapshotPass();
  mlir::registerPrintIRPass();
  mlir::registerPrintOpStatsPass();
  mlir::registerRemoveDeadValuesPass();
  mlir::registerStripDebugInfoPass();
  mlir::registerSymbolDCEPass();
  mlir::registerTopologicalSortPass();
}

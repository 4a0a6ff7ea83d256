//===- NormRemarks.cpp - Which written norms are LibTorch's ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/fsdp/Fsdp.h"
#include "ir/fsdp/NormRows.h"
#include "tools/fsdp-opt/input/Diagnostics.h"
#include "tools/fsdp-opt/remarks/Remarks.h"

#include "mlir/IR/Remarks.h"

using namespace fsdp;
using namespace mlir;

/// Who computes them; CPUs have no kernel of LibTorch's.
static std::string describeFused(ModuleOp module, bool hasKernels) {
  if (getDevice(module) != "cpu")
    return "a norm that is written out is one of LibTorch's kernels, and so is "
           "its backward";
  if (hasKernels)
    return "a norm that is written out is LibTorch's norm, as kernels of our "
           "own: its input is rounded once less";
  return "a norm that is written out is LibTorch's norm, which CPUs compute "
         "operator by operator as well: nothing is gained";
}

void fsdp::remarkNorms(ModuleOp module, bool hasKernels) {
  MLIRContext *context = module.getContext();
  auto rows = module->getAttrOfType<ArrayAttr>(kNormsAttr);
  if (!context->getRemarkEngine() || !rows)
    return;
  DiagnosticCollector diagnostics(context);
  for (auto row : rows.getAsRange<DictionaryAttr>()) {
    auto text = [&](const char *key) {
      auto value = row.getAs<StringAttr>(key);
      return value ? value.getValue() : llvm::StringRef();
    };
    Location at = makeLocation(context, text("module"), text("source"));
    if (!text("why").empty())
      remark::missed(at, remark::RemarkOpts::name("Written").category("norms"))
          << remark::reason("{0}", text("why"))
          << "the norm stays as it is written";
    else
      remark::passed(at, remark::RemarkOpts::name("Fused").category("norms"))
          << remark::reason("{0}", "norms: fused")
          << describeFused(module, hasKernels);
  }
}

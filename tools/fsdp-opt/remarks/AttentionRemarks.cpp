//===- AttentionRemarks.cpp - By which kernel attention is computed -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/fsdp/Fsdp.h"
#include "tools/fsdp-opt/explain/Summary.h"
#include "tools/fsdp-opt/input/Diagnostics.h"
#include "tools/fsdp-opt/remarks/Remarks.h"

#include "mlir/IR/Remarks.h"

using namespace fsdp;
using namespace mlir;

void fsdp::remarkAttention(ModuleOp module) {
  MLIRContext *context = module.getContext();
  auto rows = module->getAttrOfType<ArrayAttr>(kAttentionAttr);
  if (!context->getRemarkEngine() || !rows)
    return;
  DiagnosticCollector diagnostics(context);
  for (auto row : rows.getAsRange<DictionaryAttr>()) {
    auto text = [&](const char *key) {
      auto value = row.getAs<StringAttr>(key);
      return value ? value.getValue() : llvm::StringRef();
    };
    Location at = makeLocation(context, text("module"), text("source"));
    std::string mask = "; the mask: " + describeMask(text("mask"));
    std::string what =
        text("kernel") == "blocks"
            ? "scores are made in blocks of queries, and again for backward"
            : "the scores of all queries and keys are made and kept";
    if (!text("why").empty())
      remark::missed(
          at, remark::RemarkOpts::name("Decomposed").category("attention"))
          << remark::reason("{0}", text("why")) << (what + mask);
    else
      remark::passed(at,
                     remark::RemarkOpts::name("Fused").category("attention"))
          << ("kernel: " + describeKernel(row) + mask);
  }
}

//===- PrecisionAttr.h - Precision policies on a module ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_REQUEST_PRECISIONATTR_H
#define FSDP_IR_CAPTURE_REQUEST_PRECISIONATTR_H

#include "ir/capture/request/Precision.h"
#include "ir/fsdp/Fsdp.h"

namespace fsdp {

/// `precision` as the module holds it, which was captured with it; null if it
/// is empty.
inline PrecisionAttr getPrecisionAttr(mlir::MLIRContext *context,
                                      const Precision &precision) {
  if (precision.isEmpty())
    return {};
  auto getText = [&](const std::string &text) {
    return text.empty() ? mlir::StringAttr()
                        : mlir::StringAttr::get(context, text);
  };
  auto getPolicy = [&](const PrecisionPolicy &policy, mlir::ArrayAttr rules) {
    return PrecisionAttr::get(
        context, getText(policy.paramDtype), getText(policy.reduceDtype),
        getText(policy.outputDtype), policy.castForwardInputs, rules);
  };
  llvm::SmallVector<mlir::Attribute> rules;
  for (const PrecisionOverride &each : precision.overrides)
    rules.push_back(PrecisionRuleAttr::get(context,
                                           getTextsAttr(context, each.modules),
                                           getPolicy(each.policy, {})));
  return getPolicy(precision.policy,
                   rules.empty() ? mlir::ArrayAttr()
                                 : mlir::ArrayAttr::get(context, rules));
}

/// What `module` was captured with.
inline Precision getPrecision(mlir::ModuleOp module) {
  auto getPolicy = [](PrecisionAttr attr) {
    auto getText = [](mlir::StringAttr text) {
      return text ? text.str() : std::string();
    };
    return PrecisionPolicy{
        getText(attr.getParamDtype()), getText(attr.getReduceDtype()),
        getText(attr.getOutputDtype()), attr.getCastForwardInputs()};
  };
  auto attr = findSetting<PrecisionAttr>(module);
  if (!attr)
    return {};
  Precision precision{getPolicy(attr), {}};
  for (auto rule : getList<PrecisionRuleAttr>(attr.getRules())) {
    PrecisionOverride &each = precision.overrides.emplace_back();
    for (llvm::StringRef module : getTexts(rule.getModules()))
      each.modules.push_back(module.str());
    each.policy = getPolicy(rule.getPolicy());
  }
  return precision;
}

} // namespace fsdp

#endif // FSDP_IR_CAPTURE_REQUEST_PRECISIONATTR_H

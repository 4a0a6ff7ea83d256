//===- Bindings.cpp - Which states a program reads and leaves -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/fsdp/Fsdp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace fsdp;

namespace {

/// One argument or result of a program and the state it is bound to.
class BindingVerifier {
public:
  BindingVerifier(ModuleOp module) : table(module), module(module) {}

  LogicalResult verify() {
    for (StateOp state : module.getOps<StateOp>())
      if (failed(verifyOf(state)) || failed(verifyPart(state)))
        return failure();
    for (auto func : module.getOps<func::FuncOp>())
      if (failed(verifyFunction(func)))
        return failure();
    return success();
  }

private:
  // ST-3.
  LogicalResult verifyOf(StateOp state) {
    FlatSymbolRefAttr of = state.getOfAttr();
    if (!of || (of.getAttr() != state.getSymNameAttr() &&
                table.lookup<StateOp>(of.getAttr())))
      return success();
    return state.emitOpError("expects 'of' to name another state of the "
                             "module, found '")
           << of.getValue() << "'";
  }

  // ST-13. Members stand in the table in the order in which they lie.
  LogicalResult verifyPart(StateOp state) {
    PartAttr part = state.getPart();
    if (!part)
      return success();
    auto flat = table.lookup<StateOp>(part.getFlat().getAttr());
    if (!flat || !flat.isFlat())
      return state.emitOpError("expects to be part of a flat state of the "
                               "module, found '")
             << part.getFlat().getValue() << "'";
    RankedTensorType type = state.getGlobalType(), whole = flat.getGlobalType();
    int64_t &end = ends[flat];
    int64_t offset = part.getOffset();
    bool isAlike = type.getElementType() == whole.getElementType() &&
                   state.getRole() == flat.getRole() &&
                   state.getGroup() == flat.getGroup();
    bool isInside = offset >= end &&
                    type.getNumElements() <= whole.getNumElements() - offset;
    end = offset + type.getNumElements();
    if (isAlike && isInside)
      return success();
    InFlightDiagnostic diag =
        isAlike ? state.emitOpError("expects to lie behind the member before "
                                    "it and inside of its flat state, found "
                                    "elements ")
                      << offset << " to " << end
                : state.emitOpError("expects a flat state of its element type, "
                                    "role and group");
    diag.attachNote(flat.getLoc()) << "the flat state";
    return diag;
  }

  // BI-1 to BI-3. References see the model's tensors, captured programs a
  // split's part of them, others shards.
  LogicalResult verifyBinding(func::FuncOp func, Type type, Attribute attr,
                              StringRef what, unsigned index, bool captured) {
    if (!attr)
      return success();
    auto ref = dyn_cast<FlatSymbolRefAttr>(attr);
    if (!ref)
      return func.emitError(what)
             << " " << index << " expects the name of a state, found " << attr;
    auto state = table.lookup<StateOp>(ref.getAttr());
    if (!state)
      return func.emitError(what)
             << " " << index << " is bound to '" << ref.getValue()
             << "', which is no fsdp.state of the module";
    // BI-5.
    if (state.getPart() && !captured)
      return func.emitError(what)
             << " " << index << " is bound to '" << ref.getValue()
             << "', which is part of the flat state '"
             << state.getPart().getFlat().getValue() << "'; bind that one";
    RankedTensorType expected = getProgram(func).getReference()
                                    ? state.getWholeType()
                                : captured ? state.getGlobalType()
                                           : state.getLocalType();
    // A state that is stored with strides is bound with them.
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (tensor && tensor.getShape() == expected.getShape() &&
        tensor.getElementType() == expected.getElementType())
      return success();
    InFlightDiagnostic diag = func.emitError(what)
                              << " " << index << " is bound to '"
                              << ref.getValue() << "' and expects " << expected
                              << ", found " << type;
    diag.attachNote(state.getLoc()) << "state declared here";
    return diag;
  }

  LogicalResult verifyFunction(func::FuncOp func) {
    bool captured = func->hasAttr(kCapturedAttr);
    llvm::StringSet<> arguments, results;
    for (auto [i, type] : llvm::enumerate(func.getArgumentTypes())) {
      Attribute attr = func.getArgAttr(i, kStateAttr);
      if (failed(verifyBinding(func, type, attr, "argument", i, captured)) ||
          failed(verifyOnce(func, attr, "arguments", arguments)))
        return failure();
    }
    for (auto [i, type] : llvm::enumerate(func.getResultTypes())) {
      Attribute attr = func.getResultAttr(i, kStateAttr);
      Attribute gradient = func.getResultAttr(i, kGradientAttr);
      if (failed(verifyBinding(func, type, attr, "result", i, captured)) ||
          failed(verifyBinding(func, type, gradient, "result", i, captured)) ||
          failed(verifyOnce(func, attr, "results", results)))
        return failure();
    }
    return success();
  }

  // BI-4.
  LogicalResult verifyOnce(func::FuncOp func, Attribute attr, StringRef what,
                           llvm::StringSet<> &seen) {
    auto ref = dyn_cast_or_null<FlatSymbolRefAttr>(attr);
    if (!ref || seen.insert(ref.getValue()).second)
      return success();
    return func.emitError("expects a state to be bound once among its ")
           << what << ", found '" << ref.getValue() << "' twice";
  }

  SymbolTable table;
  ModuleOp module;
  llvm::DenseMap<Operation *, int64_t> ends; ///< of flat states' members so far
};

} // namespace

LogicalResult fsdp::verifyBindings(ModuleOp module) {
  return BindingVerifier(module).verify();
}

//===- VerifyCaptured.cpp - The contract of a captured program -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Aten.h"
#include "passes/Passes.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/States.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_VERIFYCAPTURED
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

/// Roles that capture gives.
bool isCapturedRole(Role role) {
  return role == Role::Parameter || role == Role::Frozen ||
         role == Role::Buffer || role == Role::Constant ||
         role == Role::Random || role == Role::LossScale;
}

class CapturedVerifier {
public:
  CapturedVerifier(func::FuncOp func, const StateTable &states)
      : func(func), states(states) {}

  LogicalResult verify() {
    if (!func.getBody().hasOneBlock())
      return func.emitError("expects a captured program to be one block");
    if (failed(verifyArguments()) || failed(verifyResults()))
      return failure();
    for (Operation &op : func.getBody().front().without_terminator())
      if (failed(verifyOp(op)))
        return failure();
    return success();
  }

private:
  LogicalResult verifyArguments() {
    llvm::DenseSet<Operation *> bound;
    llvm::StringSet<> inputs;
    for (unsigned i = 0; i < func.getNumArguments(); ++i) {
      if (StateOp state = states.lookup(func, i)) {
        bound.insert(state);
        continue;
      }
      auto input = func.getArgAttrOfType<StringAttr>(i, kInputAttr);
      if (!input)
        return func.emitError("expects argument ")
               << i << " to be a state ('" << kStateAttr << "') or an input ('"
               << kInputAttr << "')";
      if (!inputs.insert(input.getValue()).second)
        return func.emitError("has two inputs called '")
               << input.getValue() << "'";
    }
    for (StateOp state : states.getStates()) {
      if (!isCapturedRole(state.getRole()))
        return state.emitOpError("expects a role that capture gives, found ")
               << stringifyRole(state.getRole());
      if (!bound.contains(state)) {
        InFlightDiagnostic diagnostic =
            state.emitOpError("expects to be an argument of the program");
        diagnostic.attachNote(func.getLoc()) << "the program";
        return diagnostic;
      }
    }
    return success();
  }

  LogicalResult verifyResults() {
    if (!isInference(func) && failed(verifyLoss()))
      return failure();
    llvm::DenseSet<Operation *> withGradient;
    for (unsigned i = 0; i < func.getNumResults(); ++i) {
      if (auto of =
              func.getResultAttrOfType<FlatSymbolRefAttr>(i, kGradientAttr)) {
        if (isInference(func))
          return func.emitError("result ")
                 << i << " is a gradient; expected none in a program for "
                 << stringifyProgramKind(getProgram(func).getKind());
        if (failed(verifyGradient(i, states.lookup(of))))
          return failure();
        withGradient.insert(states.lookup(of));
      } else if (auto bound = func.getResultAttrOfType<FlatSymbolRefAttr>(
                     i, kStateAttr)) {
        StateOp state = states.lookup(bound);
        if (!state || (state.getRole() != Role::Buffer &&
                       state.getRole() != Role::Random))
          return func.emitError("result ")
                 << i << " expects to be the new value of a buffer, found '"
                 << bound.getValue() << "'";
      } else if (auto name =
                     func.getResultAttrOfType<StringAttr>(i, kOutputAttr)) {
        if (failed(verifyOutput(i, name)))
          return failure();
      } else {
        return func.emitError("expects result ")
               << i << " to be an output ('" << kOutputAttr
               << "'), a new value ('" << kStateAttr << "') or a gradient ('"
               << kGradientAttr << "')";
      }
    }
    if (isInference(func))
      return success();
    for (StateOp state : states.getStates())
      if (state.getRole() == Role::Parameter && !withGradient.contains(state))
        return state.emitOpError(
            "expects a gradient among the results; a parameter without one is "
            "'frozen'");
    return success();
  }

  LogicalResult verifyLoss() {
    auto type = func.getNumResults() == 0
                    ? RankedTensorType()
                    : dyn_cast<RankedTensorType>(func.getResultTypes()[0]);
    if (type && type.getRank() == 0 && isa<FloatType>(type.getElementType()) &&
        func.getResultAttr(0, kOutputAttr))
      return success();
    return func.emitError("expects its first result to be the loss, an output "
                          "that is a floating-point scalar");
  }

  /// Outputs are handed out as they lie in memory.
  LogicalResult verifyOutput(unsigned index, StringAttr name) {
    if (!outputs.insert(name).second)
      return func.emitError("has two outputs called '")
             << name.getValue() << "'";
    auto type = dyn_cast<RankedTensorType>(func.getResultTypes()[index]);
    if (!type || type.getEncoding())
      return func.emitError("output '")
             << name.getValue() << "' expects to be contiguous, found "
             << func.getResultTypes()[index];
    return success();
  }

  LogicalResult verifyGradient(unsigned index, StateOp state) {
    if (!state || state.getRole() != Role::Parameter)
      return func.emitError("result ")
             << index << " expects to be the gradient of a parameter, found "
             << func.getResultAttr(index, kGradientAttr);
    auto type = cast<RankedTensorType>(func.getResultTypes()[index]);
    if (type.getEncoding())
      return func.emitError("result ")
             << index << ", the gradient of '" << state.getSymName()
             << "', expects to be contiguous, found " << type;
    return success();
  }

  LogicalResult verifyOp(Operation &op) {
    // Chunks of a loss are packed, frozen parameters may be quantized, and what
    // linear layers multiply may be encoded.
    if (isa<ConstantOp, PackOp, DequantizeOp, AmaxOp, ScaleOp, EncodeOp>(op))
      return success();
    if (auto draw = dyn_cast<DrawOp>(op))
      return verifyDraw(draw);
    const aten::Schema *schema = aten::lookupSchema(&op);
    if (!schema)
      return op.emitOpError("expects to be an aten op or an fsdp.constant in a "
                            "captured program");
    if (schema->writes())
      return op.emitOpError("writes an operand; a captured program is "
                            "functional");
    if (schema->is(aten::NondeterministicSeeded) && drawsNumbers(op))
      return op.emitOpError("draws from a generator; expected fsdp.draw, which "
                            "a step can repeat");
    return success();
  }

  /// Not with a dropout probability of 0 or outside of training.
  static bool drawsNumbers(Operation &op) {
    bool isDropout = op.getName().getStringRef().contains("dropout");
    for (StringRef name : {"p", "dropout_p", "dropout"})
      if (auto p =
              dyn_cast_or_null<FloatAttr>(aten::getStaticArgument(&op, name));
          p && p.getValue().isZero() && (isDropout || name != "p"))
        return false;
    for (StringRef name : {"train", "training"})
      if (auto flag =
              dyn_cast_or_null<BoolAttr>(aten::getStaticArgument(&op, name));
          flag && !flag.getValue())
        return false;
    return true;
  }

  /// Draws start from the one random state, and two sites are two numbers.
  LogicalResult verifyDraw(DrawOp draw) {
    auto argument = dyn_cast<BlockArgument>(draw.getRandom());
    StateOp state =
        argument ? states.lookup(func, argument.getArgNumber()) : StateOp();
    if (!state || state.getRole() != Role::Random)
      return draw.emitOpError(
          "expects to draw from the program's random state");
    auto [it, isNew] = sites.try_emplace(draw.getSite(), draw);
    if (isNew)
      return success();
    InFlightDiagnostic diagnostic = draw.emitOpError("expects a site of its "
                                                     "own, found ")
                                    << draw.getSite();
    diagnostic.attachNote(it->second.getLoc()) << "also drawn here";
    return diagnostic;
  }

  func::FuncOp func;
  const StateTable &states;
  llvm::DenseSet<StringAttr> outputs;
  llvm::DenseMap<int64_t, DrawOp> sites;
};

struct VerifyCaptured final : fsdp::impl::VerifyCapturedBase<VerifyCaptured> {
  void runOnOperation() override {
    if (failed(verify(getOperation())))
      signalPassFailure();
  }

  static LogicalResult verify(ModuleOp module) {
    if (failed(verifyBindings(module)))
      return failure();
    StateTable states(module);
    SmallVector<func::FuncOp> programs = getPrograms(module);
    for (func::FuncOp func : programs) {
      if (!func->hasAttr(kCapturedAttr))
        return func.emitError("expects a captured program, marked '")
               << kCapturedAttr << "'";
      if (failed(CapturedVerifier(func, states).verify()))
        return failure();
    }
    if (programs.empty())
      return module.emitError("expects a captured program, found none");
    return success();
  }
};

} // namespace

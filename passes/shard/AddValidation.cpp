//===- AddValidation.cpp - A program that only computes the loss ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Entries.h"
#include "passes/analysis/LossWeight.h"
#include "passes/analysis/Programs.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_ADDVALIDATION
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

struct AddValidation final : fsdp::impl::AddValidationBase<AddValidation> {
  void runOnOperation() override {
    if (!findSetting<ValidationAttr>(getOperation()))
      return;
    for (func::FuncOp program : getPrograms(getOperation()))
      if (!isInference(program) && failed(add(program)))
        return signalPassFailure();
  }

private:
  static LogicalResult add(func::FuncOp program) {
    if (!program->hasAttr(kCapturedAttr) || program.getNumResults() == 0 ||
        !program.getResultAttr(0, kOutputAttr))
      return program.emitError("expects a captured program whose first result "
                               "is the loss");
    auto module = program->getParentOfType<ModuleOp>();
    ProgramAttr validation = getProgram(program).withKind(ProgramKind::Eval);
    if (module.lookupSymbol(validation.getSymbol()))
      return program.emitError("has a program '")
             << validation.getSymbol() << "' already";
    OpBuilder builder(program.getContext());
    // Behind all others, so that the first program stays the first.
    builder.setInsertionPointToEnd(module.getBody());
    auto clone = cast<func::FuncOp>(builder.clone(*program));
    setProgram(clone, validation);
    keepLoss(clone);
    if (auto noise = findSetting<NoiseAttr>(module))
      if (failed(dropNoise(clone, noise.getSites())))
        return failure();
    eraseDead(clone);
    return success();
  }

  /// Embeddings are then as they are without what `sites` draw.
  static LogicalResult dropNoise(func::FuncOp func, ArrayRef<int64_t> sites) {
    for (auto draw : func.getOps<DrawOp>()) {
      if (!llvm::is_contained(sites, draw.getSite()))
        continue;
      for (Operation *user : draw->getUsers()) {
        bool isSum =
            user->getName().getStringRef() == "aten.add.Tensor" &&
            user->getNumOperands() == 2 &&
            user->getOperand(1) == draw.getResult() &&
            user->getOperand(0).getType() == user->getResult(0).getType();
        if (!isSum)
          return user->emitError("expected noise to be added to an embedding, "
                                 "which validation reads without it");
        user->getResult(0).replaceAllUsesWith(user->getOperand(0));
      }
    }
    return success();
  }

  /// Neither gradients nor new values of buffers and random states.
  static void keepLoss(func::FuncOp func) {
    Operation *terminator = func.getBody().front().getTerminator();
    SmallVector<Value> values;
    SmallVector<DictionaryAttr> attributes;
    std::optional<unsigned> weighedBy = findLossWeight(func);
    for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
      if (i != 0 && i != weighedBy)
        continue;
      values.push_back(value);
      attributes.push_back(func.getResultAttrDict(i));
    }
    terminator->setOperands(values);
    func.setFunctionType(FunctionType::get(func.getContext(),
                                           func.getArgumentTypes(),
                                           terminator->getOperandTypes()));
    func.setAllResultAttrs(attributes);
  }

  static void eraseDead(func::FuncOp func) {
    for (Operation &op :
         llvm::make_early_inc_range(llvm::reverse(func.getBody().front())))
      if (isOpTriviallyDead(&op))
        op.erase();
  }
};

} // namespace

//===- ProgramEmitter.h - A program while it becomes a plan's ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_EMIT_PROGRAMEMITTER_H
#define FSDP_PASSES_EMIT_PROGRAMEMITTER_H

#include "passes/analysis/Liveness.h"
#include "passes/emit/EmitProgram.h"

namespace fsdp {

/// The plan's values of a program, and the instructions so far.
class ProgramEmitter {
public:
  ProgramEmitter(mlir::func::FuncOp program, const StateTable &states,
                 EmitContext &context);

  /// Emits an error at what the plan cannot hold.
  mlir::LogicalResult run();

  /// The plan's value of `value`, which has been made.
  uint32_t idOf(mlir::Value value) const { return ids.at(value); }
  std::vector<uint32_t> idsOf(mlir::ValueRange values) const;
  int32_t optionalIdOf(mlir::Value value) const {
    return value ? static_cast<int32_t>(idOf(value)) : -1;
  }
  /// Of what a start promises: of its wait's results.
  std::vector<uint32_t> promisedIdsOf(StartOpInterface start) const;
  uint32_t futureOf(mlir::Value future) const { return futures.at(future); }

  /// `value` is at run time the tensor that `same` is.
  void makeSame(mlir::Value value, mlir::Value same) {
    ids[value] = idOf(same);
  }
  mlir::FailureOr<uint32_t> makeValue(mlir::Value value, plan::Place place);
  mlir::LogicalResult makeView(mlir::Value value, mlir::Value source);
  mlir::LogicalResult makeResult(mlir::OpResult result);

  template <typename Body>
  mlir::LogicalResult add(Body body, mlir::Location location) {
    auto instruction = std::make_unique<plan::InstructionT>();
    instruction->body.Set(std::move(body));
    instruction->at = context.getLocation(location);
    result.instructions.push_back(std::move(instruction));
    return mlir::success();
  }
  /// Of an op that has one result, which the instruction computes.
  template <typename Body>
  mlir::LogicalResult addComputed(Body body, mlir::Operation *op) {
    if (failed(makeResult(op->getResult(0))))
      return mlir::failure();
    body.output = idOf(op->getResult(0));
    return add(std::move(body), op->getLoc());
  }
  /// The operator call that `op` says, for `results`, which need not be its
  /// own.
  mlir::LogicalResult addCall(mlir::Operation *op, mlir::ResultRange results);

  mlir::func::FuncOp program;
  const StateTable &states;
  EmitContext &context;
  Liveness liveness;
  plan::ProgramT result;

private:
  mlir::LogicalResult makeSlot(mlir::Value value, int64_t address);
  mlir::LogicalResult makePromised(StartOpInterface start);
  mlir::LogicalResult emitArgument(mlir::BlockArgument argument);
  mlir::LogicalResult emitOp(mlir::Operation &op);

  const std::optional<int> capability; ///< of the GPU, if it is one
  llvm::DenseMap<mlir::Value, uint32_t> ids, futures;
  /// Addresses that stand in `fsdp.at`, by storage.
  llvm::DenseMap<unsigned, int64_t> addresses;
};

// Each kind of op has its own in passes/emit/instructions.
mlir::LogicalResult emit(mlir::func::ReturnOp op, ProgramEmitter &emitter);
mlir::LogicalResult emit(ConstantOp op, ProgramEmitter &emitter);
mlir::LogicalResult emit(ReplayOp op, ProgramEmitter &emitter);
mlir::LogicalResult emit(StartOp op, ProgramEmitter &emitter);
mlir::LogicalResult emit(CopyStartOp op, ProgramEmitter &emitter);
mlir::LogicalResult emit(WaitOp op, ProgramEmitter &emitter);
mlir::LogicalResult emit(FreeOp op, ProgramEmitter &emitter);
mlir::LogicalResult emit(ZeroPaddingOp op, ProgramEmitter &emitter);
mlir::LogicalResult emit(ShardOp op, ProgramEmitter &emitter);
mlir::LogicalResult emit(SelectRowsOp op, ProgramEmitter &emitter);
mlir::LogicalResult emit(AccumulateOp op, ProgramEmitter &emitter);
mlir::LogicalResult emit(SquareSumOp op, ProgramEmitter &emitter);
mlir::LogicalResult emit(SquareRootOp op, ProgramEmitter &emitter);
mlir::LogicalResult emit(DequantizeOp op, ProgramEmitter &emitter);
mlir::LogicalResult emit(PackOp op, ProgramEmitter &emitter);
mlir::LogicalResult emit(UnpackOp op, ProgramEmitter &emitter);
mlir::LogicalResult emit(DrawOp op, ProgramEmitter &emitter);
mlir::LogicalResult emit(UpdateOp op, ProgramEmitter &emitter);
mlir::LogicalResult emit(BlockMaximaOp op, ProgramEmitter &emitter);
mlir::LogicalResult emit(KernelOp op, ProgramEmitter &emitter);
mlir::LogicalResult emit(SumPartsOp op, ProgramEmitter &emitter);

} // namespace fsdp

#endif // FSDP_PASSES_EMIT_PROGRAMEMITTER_H

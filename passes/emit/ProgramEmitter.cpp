//===- ProgramEmitter.cpp - From a program to its instructions ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One value of the plan for each tensor of the program, but for those that are
// the same tensor at run time: a replay and its operand, an optimizer's result
// and the state that it updates.
//
//===----------------------------------------------------------------------===//

#include "passes/emit/ProgramEmitter.h"

#include "ir/aten/Aten.h"
#include "passes/analysis/CudaSyncs.h"
#include "passes/analysis/Views.h"
#include "passes/emit/EmitArguments.h"
#include "passes/emit/PlanEnums.h"
#include "passes/emit/Types.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fsdp;
using plan::Place;

ProgramEmitter::ProgramEmitter(func::FuncOp program, const StateTable &states,
                               EmitContext &context)
    : program(program), states(states), context(context), liveness(program),
      capability(getCudaCapability(program->getParentOfType<ModuleOp>())) {}

std::vector<uint32_t> ProgramEmitter::idsOf(ValueRange values) const {
  std::vector<uint32_t> result;
  for (Value value : values)
    result.push_back(idOf(value));
  return result;
}

FailureOr<uint32_t> ProgramEmitter::makeValue(Value value, Place place) {
  auto type = cast<RankedTensorType>(value.getType());
  std::optional<plan::DType> dtype = toDType(type.getElementType());
  if (!dtype)
    return emitError(value.getLoc(), "an artifact cannot hold tensors of ")
           << type.getElementType();
  auto entry = std::make_unique<plan::ValueT>();
  entry->dtype = *dtype;
  entry->shape = type.getShape();
  if (!aten::isContiguous(type)) {
    SmallVector<int64_t> strides = aten::getStrides(type);
    entry->strides.assign(strides.begin(), strides.end());
  }
  entry->place = place;
  entry->memory = toPlan(liveness.getMemories().get(value));
  uint32_t id = result.values.size();
  result.values.push_back(std::move(entry));
  ids[value] = id;
  return id;
}

/// A value that owns its storage: a slot, or the place of a state.
LogicalResult ProgramEmitter::makeSlot(Value value, int64_t address) {
  unsigned index = liveness.getStorage(value);
  const Storage &storage = liveness.getStorages()[index];
  bool isState = storage.kind == StorageKind::State;
  FailureOr<uint32_t> id =
      makeValue(value, isState ? Place::state : Place::slot);
  if (failed(id))
    return failure();
  plan::ValueT &entry = *result.values[*id];
  entry.offset = address;
  entry.bytes = storage.bytes;
  if (isState)
    entry.state = states.getIndex(states.lookup(storage.state));
  return success();
}

LogicalResult ProgramEmitter::makeView(Value value, Value source) {
  FailureOr<uint32_t> id = makeValue(value, Place::view);
  if (failed(id))
    return failure();
  const plan::ValueT &entry = *result.values[idOf(source)];
  result.values[*id]->base =
      entry.place == Place::view ? entry.base : idOf(source);
  return success();
}

LogicalResult ProgramEmitter::makeResult(OpResult value) {
  if (Value source = getViewSource(value))
    return makeView(value, source);
  return makeSlot(value, addresses.at(liveness.getStorage(value)));
}

/// The values that a start promises exist from then on, under the results of
/// its wait.
LogicalResult ProgramEmitter::makePromised(StartOpInterface start) {
  auto wait = cast<WaitOp>(*start.getFuture().user_begin());
  futures[start.getFuture()] = result.futures++;
  for (auto [number, value] : llvm::enumerate(wait.getResults())) {
    LogicalResult made =
        start.isInPlace()
            ? makeView(value, start.getInputs()[number])
            : makeSlot(value, addresses.at(liveness.getStorage(value)));
    if (failed(made))
      return failure();
  }
  return success();
}

std::vector<uint32_t>
ProgramEmitter::promisedIdsOf(StartOpInterface start) const {
  return idsOf(cast<WaitOp>(*start.getFuture().user_begin()).getResults());
}

LogicalResult ProgramEmitter::emitArgument(BlockArgument argument) {
  unsigned number = argument.getArgNumber();
  auto binding = std::make_unique<plan::BindingT>();
  if (StateOp state = states.lookup(program, number)) {
    if (failed(makeSlot(argument, *state.getAt())))
      return failure();
    binding->state = static_cast<int32_t>(states.getIndex(state));
  } else {
    auto name = program.getArgAttrOfType<StringAttr>(number, kInputAttr);
    if (!name)
      return program.emitError("argument ")
             << number << " is bound to neither a state nor an input";
    auto at = program.getArgAttrOfType<DenseI64ArrayAttr>(number, kAtAttr);
    if (failed(makeSlot(argument, at[0])))
      return failure();
    auto type = cast<RankedTensorType>(argument.getType());
    binding->input = context.getInput(
        name.getValue(), result.values[idOf(argument)]->dtype, type,
        program.getArgAttrOfType<RecordAttr>(number, kSampleAttr));
  }
  binding->value = idOf(argument);
  result.arguments.push_back(std::move(binding));
  return success();
}

LogicalResult ProgramEmitter::addCall(Operation *op, ResultRange results) {
  plan::CallT call;
  call.op = context.getOperator(op->getName());
  call.syncs = capability && !getCudaSync(op, *capability).empty();
  if (failed(emitArguments(
          op, [&](Value value) { return static_cast<int32_t>(idOf(value)); },
          call.args)))
    return failure();
  for (OpResult value : results) {
    if (!isa<RankedTensorType>(value.getType())) {
      call.results.push_back(-1);
      continue;
    }
    if (failed(makeResult(value)))
      return failure();
    call.results.push_back(static_cast<int32_t>(idOf(value)));
  }
  return add(std::move(call), op->getLoc());
}

LogicalResult ProgramEmitter::emitOp(Operation &op) {
  if (auto at =
          dyn_cast_or_null<DenseI64ArrayAttr>(op.getDiscardableAttr(kAtAttr)))
    for (auto [storage, address] :
         llvm::zip_equal(liveness.getOwned(&op), at.asArrayRef()))
      addresses[storage] = address;
  if (auto start = dyn_cast<StartOpInterface>(op);
      start && failed(makePromised(start)))
    return failure();
  // New values are the states' own.
  if (auto optimizer = dyn_cast<UpdateOp>(op))
    for (auto [what, olds, news] : optimizer.getUpdates())
      for (auto [before, after] : llvm::zip_equal(olds, news))
        makeSame(after, before);
  return TypeSwitch<Operation *, LogicalResult>(&op)
      .Case<func::ReturnOp, ConstantOp, ReplayOp, StartOp, CopyStartOp, WaitOp,
            FreeOp, ZeroPaddingOp, ShardOp, SelectRowsOp, AccumulateOp,
            SquareSumOp, SquareRootOp, DequantizeOp, PackOp, UnpackOp, DrawOp,
            UpdateOp, BlockMaximaOp, KernelOp, SumPartsOp>(
          [&](auto known) { return emit(known, *this); })
      .Default([&](Operation *other) -> LogicalResult {
        if (aten::lookupSchema(other))
          return addCall(other, other->getResults());
        return other->emitOpError("cannot be executed; expected a planned "
                                  "program");
      });
}

LogicalResult ProgramEmitter::run() {
  result.name = program.getSymName().str();
  ProgramAttr own = getProgram(program);
  result.kind = toPlan(own.getKind());
  result.part = toPlan(own.getPart());
  if (own.getShapes())
    result.shapes = own.getShapes().str();
  if (auto flops = program->getAttrOfType<FloatAttr>(kModelFlopsAttr))
    result.model_flops = flops.getValueAsDouble();
  for (BlockArgument argument : program.getArguments())
    if (failed(emitArgument(argument)))
      return failure();
  for (Operation &op : program.getBody().front())
    if (failed(emitOp(op)))
      return failure();
  context.plan.programs.push_back(
      std::make_unique<plan::ProgramT>(std::move(result)));
  return success();
}

LogicalResult fsdp::emitProgram(func::FuncOp program, const StateTable &states,
                                EmitContext &context) {
  return ProgramEmitter(program, states, context).run();
}

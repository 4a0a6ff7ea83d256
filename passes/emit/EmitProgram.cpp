//===- EmitProgram.cpp - From a program to its instructions ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One value of the plan for each tensor of the program, but for those that are
// the same tensor at run time: a replay and its operand, an optimizer's result
// and the state that it updates.
//
//===----------------------------------------------------------------------===//

#include "passes/emit/EmitProgram.h"

#include "ir/aten/Aten.h"
#include "passes/analysis/CudaSyncs.h"
#include "passes/analysis/Liveness.h"
#include "passes/analysis/TensorBuilders.h"
#include "passes/analysis/Views.h"
#include "passes/emit/EmitArguments.h"
#include "passes/emit/PlanEnums.h"
#include "passes/emit/Types.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fsdp;
using plan::Place;

namespace {

class ProgramEmitter {
public:
  ProgramEmitter(func::FuncOp program, const StateTable &states,
                 EmitContext &context)
      : program(program), states(states), context(context),
        capability(getCudaCapability(program->getParentOfType<ModuleOp>())),
        liveness(program) {}

  LogicalResult run();

private:
  /// The plan's value of `value`, which has been made.
  uint32_t idOf(Value value) const { return ids.at(value); }
  std::vector<uint32_t> idsOf(ValueRange values) const {
    std::vector<uint32_t> result;
    for (Value value : values)
      result.push_back(idOf(value));
    return result;
  }
  int32_t optionalIdOf(Value value) const {
    return value ? static_cast<int32_t>(idOf(value)) : -1;
  }
  std::vector<uint32_t> promisedIdsOf(StartOpInterface start) const;

  FailureOr<uint32_t> makeValue(Value value, Place place);
  LogicalResult makeSlot(Value value, int64_t address);
  LogicalResult makeView(Value value, Value source);
  LogicalResult makeResult(OpResult result);
  LogicalResult makePromised(StartOpInterface start);

  LogicalResult emitArgument(BlockArgument argument);
  LogicalResult emit(Operation &op);
  LogicalResult emitCall(Operation &op, ResultRange results);
  void emitTransfer(StartOp start);
  LogicalResult emitUnpack(UnpackOp op);
  LogicalResult emitAccumulate(AccumulateOp op);
  LogicalResult emitPack(PackOp op);
  template <typename Body>
  LogicalResult emitSquares(Operation *op, ValueRange inputs);
  LogicalResult emitDequantize(DequantizeOp op);
  LogicalResult emitConstant(ConstantOp op);
  LogicalResult emitResults(func::ReturnOp op);
  LogicalResult emitUpdate(UpdateOp op);
  LogicalResult emitMaxima(BlockMaximaOp op);
  std::vector<uint32_t> statesOf(ValueRange params);
  template <typename Body, typename Op>
  void setTensors(Body &body, Op op);
  LogicalResult emitDraw(DrawOp op);
  template <typename T>
  void add(T body, Location location) {
    auto instruction = std::make_unique<plan::InstructionT>();
    instruction->body.Set(std::move(body));
    instruction->at = context.getLocation(location);
    result.instructions.push_back(std::move(instruction));
  }

  func::FuncOp program;
  const StateTable &states;
  EmitContext &context;
  const std::optional<int> capability; ///< of the GPU, if it is one
  Liveness liveness;
  plan::ProgramT result;
  DenseMap<Value, uint32_t> ids;
  DenseMap<Value, uint32_t> futures;
  /// Addresses that stand in `fsdp.at`, by storage.
  DenseMap<unsigned, int64_t> addresses;
};

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

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

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

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

LogicalResult ProgramEmitter::emitConstant(ConstantOp op) {
  FailureOr<uint32_t> id = makeValue(op.getResult(), Place::literal);
  if (failed(id))
    return failure();
  std::optional<std::vector<uint8_t>> bytes = toBytes(op.getValue());
  if (!bytes)
    return op.emitOpError("has a value that an artifact cannot hold: ")
           << op.getValue();
  result.values[*id]->literal = std::move(*bytes);
  result.values[*id]->wrapped = op.getWrapped();
  return success();
}

/// The operator call that `op` says, for `results`, which need not be its own.
LogicalResult ProgramEmitter::emitCall(Operation &op, ResultRange results) {
  plan::CallT call;
  call.op = context.getOperator(op.getName());
  call.syncs = capability && !getCudaSync(&op, *capability).empty();
  if (failed(emitArguments(
          &op, [&](Value value) { return static_cast<int32_t>(idOf(value)); },
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
  add(std::move(call), op.getLoc());
  return success();
}

/// To the runtime a member is a view like any other.
LogicalResult ProgramEmitter::emitUnpack(UnpackOp op) {
  OpBuilder builder(op.getContext());
  OwningOpRef<Operation *> view =
      buildView(builder, op.getLoc(), op.getPacked(), int64_t(op.getOffset()),
                cast<RankedTensorType>(op.getResult().getType()))
          .getDefiningOp();
  return emitCall(**view, op->getResults());
}

LogicalResult ProgramEmitter::emitAccumulate(AccumulateOp op) {
  bool grows =
      liveness.getStorage(op.getResult()) == liveness.getStorage(op.getInto());
  if (failed(makeView(op.getResult(), grows ? op.getInto() : op.getGradient())))
    return failure();
  plan::AccumulateT accumulate;
  accumulate.gradient = idOf(op.getGradient());
  accumulate.into = idOf(op.getInto());
  accumulate.output = idOf(op.getResult());
  accumulate.divisor = static_cast<uint32_t>(op.getDivisor().value_or(1));
  accumulate.tree = op.getTree();
  add(std::move(accumulate), op.getLoc());
  return success();
}

template <typename Body>
LogicalResult ProgramEmitter::emitSquares(Operation *op, ValueRange inputs) {
  if (failed(makeResult(op->getResult(0))))
    return failure();
  Body body;
  body.inputs = idsOf(inputs);
  body.output = idOf(op->getResult(0));
  add(std::move(body), op->getLoc());
  return success();
}

LogicalResult ProgramEmitter::emitDequantize(DequantizeOp op) {
  if (failed(makeResult(cast<OpResult>(op.getResult()))))
    return failure();
  plan::DequantizeT dequantize;
  dequantize.input = idOf(op.getBlocks());
  dequantize.output = idOf(op.getResult());
  dequantize.kind = toPlan(op.getKind());
  add(std::move(dequantize), op.getLoc());
  return success();
}

LogicalResult ProgramEmitter::emitPack(PackOp op) {
  if (failed(makeResult(cast<OpResult>(op.getResult()))))
    return failure();
  plan::PackTensorsT pack;
  pack.inputs = idsOf(op.getInputs());
  pack.offsets.assign(op.getOffsets().begin(), op.getOffsets().end());
  pack.output = idOf(op.getResult());
  add(std::move(pack), op.getLoc());
  return success();
}

/// Of the parameters that are updated, which may be copies of them.
std::vector<uint32_t> ProgramEmitter::statesOf(ValueRange params) {
  std::vector<uint32_t> numbers;
  for (Value param : params)
    if (BlockArgument argument = getUpdatedArgument(param))
      numbers.push_back(static_cast<uint32_t>(
          states.getIndex(states.lookup(program, argument.getArgNumber()))));
  return numbers;
}

/// The operands that an update and its maxima share.
template <typename Body, typename Op>
void ProgramEmitter::setTensors(Body &body, Op op) {
  OptimizerNumbers numbers;
  readNumbers(op.getNumbers(), numbers);
  body.kind = static_cast<uint8_t>(op.getKind());
  body.numbers = getFacts(op.getKind()).toList(numbers);
  body.params = idsOf(op.getParams());
  body.grads = idsOf(op.getGrads());
  body.moments = idsOf(op.getMoments());
  body.scales = idsOf(op.getScales());
  body.grad_scale = optionalIdOf(op.getGradScale());
}

LogicalResult ProgramEmitter::emitUpdate(UpdateOp op) {
  plan::UpdateT update;
  setTensors(update, op);
  update.lr = idOf(op.getLr());
  update.step = optionalIdOf(op.getStep());
  update.found_inf = optionalIdOf(op.getFoundInf());
  update.maxima = optionalIdOf(op.getMaxima());
  update.rounding = op.getRounding().has_value();
  update.rounding_seed = op.getRounding().value_or(0);
  if (update.maxima != -1 || update.rounding)
    update.of = statesOf(op.getParams());
  add(std::move(update), op.getLoc());
  return success();
}

LogicalResult ProgramEmitter::emitMaxima(BlockMaximaOp op) {
  if (failed(makeResult(cast<OpResult>(op.getMaxima()))))
    return failure();
  plan::BlockMaximaT maxima;
  setTensors(maxima, op);
  maxima.of = statesOf(op.getParams());
  maxima.output = idOf(op.getMaxima());
  add(std::move(maxima), op.getLoc());
  return success();
}

LogicalResult ProgramEmitter::emitDraw(DrawOp op) {
  if (failed(makeResult(cast<OpResult>(op.getResult()))))
    return failure();
  plan::DrawT draw;
  draw.distribution = toPlan(op.getDistribution());
  draw.random = idOf(op.getRandom());
  draw.site = static_cast<uint32_t>(op.getSite());
  draw.output = idOf(op.getResult());
  llvm::append_range(draw.numbers, op.getNumberValues());
  if (std::optional<ArrayRef<int64_t>> range = op.getRange())
    draw.range = *range;
  draw.given = idsOf(op.getGiven());
  add(std::move(draw), op.getLoc());
  return success();
}

void ProgramEmitter::emitTransfer(StartOp start) {
  plan::TransferT body;
  body.kind = toPlan(start.getKind());
  body.purpose = toPlan(start.getPurpose());
  body.bucket = start.getBucket().value_or("").str();
  body.group = context.getGroup(start.getGroup());
  body.stream = toPlan(start.getStream());
  body.inputs = idsOf(start.getInputs());
  body.outputs = promisedIdsOf(start);
  body.future = futures[start.getFuture()];
  body.reduction = toPlan(start.getReduction());
  if (FloatAttr pre = start.getPreAttr())
    body.pre = pre.getValueAsDouble();
  if (FloatAttr post = start.getPostAttr())
    body.post = post.getValueAsDouble();
  if (std::optional<ArrayAttr> of = start.getOf())
    for (auto state : of->getAsRange<FlatSymbolRefAttr>())
      body.of.push_back(states.getIndex(states.lookup(state)));
  add(std::move(body), start.getLoc());
}

LogicalResult ProgramEmitter::emitResults(func::ReturnOp op) {
  DenseMap<Attribute, Value> arguments;
  for (BlockArgument argument : program.getArguments())
    if (auto state = program.getArgAttr(argument.getArgNumber(), kStateAttr))
      arguments[state] = argument;
  DenseSet<unsigned> copies(liveness.getCopies().begin(),
                            liveness.getCopies().end());
  for (auto [number, value] : llvm::enumerate(op.getOperands())) {
    auto binding = std::make_unique<plan::BindingT>();
    binding->value = idOf(value);
    if (auto state = program.getResultAttrOfType<FlatSymbolRefAttr>(
            number, kStateAttr)) {
      binding->state =
          static_cast<int32_t>(states.getIndex(states.lookup(state)));
      if (!arguments.contains(state))
        return op.emitOpError("gives state ")
               << state << " a new value, which is no argument of the program";
      if (copies.contains(number)) {
        plan::CopyT copy;
        copy.from = idOf(value);
        copy.to = idOf(arguments[state]);
        binding->value = copy.to;
        add(std::move(copy), value.getLoc());
      }
    } else if (auto name = program.getResultAttrOfType<StringAttr>(
                   number, kOutputAttr)) {
      binding->output = name.str();
    } else if (auto name = program.getResultAttrOfType<StringAttr>(
                   number, kMetricAttr)) {
      binding->metric = name.str();
    } else {
      return op.emitOpError("result ")
             << number << " is bound to neither a state nor an output";
    }
    result.results.push_back(std::move(binding));
  }
  return success();
}

LogicalResult ProgramEmitter::emit(Operation &op) {
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
        ids[after] = idOf(before);
  return TypeSwitch<Operation *, LogicalResult>(&op)
      .Case([&](func::ReturnOp ret) { return emitResults(ret); })
      .Case([&](ConstantOp constant) { return emitConstant(constant); })
      .Case([&](ReplayOp replay) {
        ids[replay.getResult()] = idOf(replay.getInput());
        return success();
      })
      .Case([&](StartOp start) {
        emitTransfer(start);
        return success();
      })
      .Case([&](CopyStartOp start) {
        plan::CopyAcrossT body;
        body.bucket = start.getBucket().value_or("").str();
        body.to = toPlan(start.getTo());
        body.stream = toPlan(start.getStream());
        body.inputs = idsOf(start.getInputs());
        body.outputs = promisedIdsOf(start);
        body.future = futures[start.getFuture()];
        add(std::move(body), start.getLoc());
        return success();
      })
      .Case([&](WaitOp wait) {
        plan::WaitT body;
        body.future = futures[wait.getFuture()];
        add(std::move(body), wait.getLoc());
        return success();
      })
      .Case([&](FreeOp free) {
        plan::FreeT body;
        body.values = idsOf(free.getTensors());
        add(std::move(body), free.getLoc());
        return success();
      })
      .Case([&](ZeroPaddingOp padding) {
        plan::ZeroPaddingT body;
        body.value = idOf(padding.getTensor());
        body.dim = static_cast<int32_t>(padding.getDim());
        body.group = context.getGroup(padding.getGroup());
        add(std::move(body), padding.getLoc());
        return success();
      })
      .Case([&](ShardOp shard) {
        if (failed(makeResult(cast<OpResult>(shard.getShard()))))
          return failure();
        plan::ShardT body;
        body.input = idOf(shard.getFull());
        body.output = idOf(shard.getShard());
        body.dim = static_cast<int32_t>(shard.getDim());
        body.group = context.getGroup(shard.getGroup());
        add(std::move(body), shard.getLoc());
        return success();
      })
      .Case([&](SelectRowsOp select) {
        if (failed(makeResult(cast<OpResult>(select.getResult()))))
          return failure();
        plan::SelectRowsT body;
        body.input = idOf(select.getInput());
        body.output = idOf(select.getResult());
        body.dim = static_cast<int32_t>(select.getDim());
        body.group = context.getGroup(select.getGroup());
        body.starts.assign(select.getStarts().begin(),
                           select.getStarts().end());
        add(std::move(body), select.getLoc());
        return success();
      })
      .Case([&](AccumulateOp op) { return emitAccumulate(op); })
      .Case([&](SquareSumOp op) {
        return emitSquares<plan::SquareSumT>(op, op.getInputs());
      })
      .Case([&](SquareRootOp op) {
        return emitSquares<plan::SquareRootT>(op, op.getSums());
      })
      .Case([&](DequantizeOp op) { return emitDequantize(op); })
      .Case([&](PackOp op) { return emitPack(op); })
      .Case([&](UnpackOp op) { return emitUnpack(op); })
      .Case([&](DrawOp draw) { return emitDraw(draw); })
      .Case([&](UpdateOp op) { return emitUpdate(op); })
      .Case([&](BlockMaximaOp op) { return emitMaxima(op); })
      .Default([&](Operation *other) -> LogicalResult {
        if (aten::lookupSchema(other))
          return emitCall(*other, other->getResults());
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
    if (failed(emit(op)))
      return failure();
  context.plan.programs.push_back(
      std::make_unique<plan::ProgramT>(std::move(result)));
  return success();
}

} // namespace

LogicalResult fsdp::emitProgram(func::FuncOp program, const StateTable &states,
                                EmitContext &context) {
  return ProgramEmitter(program, states, context).run();
}

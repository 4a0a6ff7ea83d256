//===- PlannedContents.cpp - What a planned program writes where ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/plan/PlannedContents.h"

#include "ir/aten/Aten.h"
#include "passes/analysis/Views.h"
#include "passes/plan/MemoryUse.h"

using namespace mlir;
using namespace fsdp;

static int64_t bytesOf(Type type) {
  return aten::getStorageBytes(cast<RankedTensorType>(type));
}

LogicalResult PlannedContents::prepare() {
  if (failed(makeArguments()))
    return failure();
  for (Operation &op : program.getBody().front()) {
    if (failed(isa<func::ReturnOp>(op) ? prepareReturn(op) : prepareOp(op)))
      return failure();
    ++now;
  }
  return success();
}

unsigned PlannedContents::make(int64_t begin, int64_t bytes, Location location,
                               RankedTensorType type) {
  contents.push_back({begin, bytes, location, type});
  return contents.size() - 1;
}

unsigned PlannedContents::getContents(Value value) const {
  auto it = contentsOf.find(value);
  return it == contentsOf.end() ? kNone : it->second;
}

void PlannedContents::noteRead(Value value, int64_t time) {
  if (unsigned id = getContents(value); id != kNone)
    contents[id].lastRead = std::max(contents[id].lastRead, time);
}

bool PlannedContents::isWhole(Value value) const {
  unsigned id = getContents(value);
  if (id == kNone || !contents[id].type)
    return false;
  auto type = cast<RankedTensorType>(value.getType());
  RankedTensorType whole = contents[id].type;
  return type == whole ||
         (aten::isContiguous(type) && aten::isContiguous(whole) &&
          type.getElementType() == whole.getElementType() &&
          type.getNumElements() == whole.getNumElements());
}

LogicalResult PlannedContents::makeArguments() {
  for (StateOp state : states.getStates()) {
    if (state.getPart())
      continue; // lies in a flat one
    if (!state.getAt())
      return state.emitOpError("has no address");
    RankedTensorType type = state.getLocalType();
    unsigned id =
        make(getCheckedAddress(*state.getAt(), state.isOnHost()
                                                   ? MemorySpace::Host
                                                   : MemorySpace::Device),
             bytesOf(type), state.getLoc(), type);
    held[state] = id;
    initial.push_back(id);
  }
  for (BlockArgument argument : program.getArguments()) {
    unsigned number = argument.getArgNumber();
    if (StateOp state = states.lookup(program, number)) {
      contentsOf[argument] = held.at(state);
      continue;
    }
    auto at = program.getArgAttrOfType<DenseI64ArrayAttr>(number, kAtAttr);
    if (!at || at.size() != 1)
      return program.emitError("argument ") << number << " has no address";
    auto type = cast<RankedTensorType>(argument.getType());
    unsigned id = make(at[0], bytesOf(type), argument.getLoc(), type);
    // Callers need not set an input again for the next step.
    contents[id].lastRead = kForever;
    contentsOf[argument] = id;
    initial.push_back(id);
  }
  return success();
}

bool PlannedContents::isRead(Operation &op) {
  return !isa<FreeOp>(op) &&
         (op.getNumResults() == 0 ||
          !llvm::all_of(op.getResults(), [](OpResult result) {
            return getViewSource(result) != nullptr;
          }));
}

LogicalResult PlannedContents::prepareOp(Operation &op) {
  if (isRead(op))
    for (Value operand : op.getOperands())
      noteRead(operand, now);
  if (auto wait = dyn_cast<WaitOp>(op))
    return prepareWait(wait);
  if (isa<ConstantOp>(op))
    return success();
  if (auto padding = dyn_cast<ZeroPaddingOp>(op)) {
    preparePadding(padding);
    return success();
  }
  auto addresses =
      dyn_cast_or_null<DenseI64ArrayAttr>(op.getDiscardableAttr(kAtAttr));
  ArrayRef<int64_t> at =
      addresses ? addresses.asArrayRef() : ArrayRef<int64_t>();
  if (auto start = dyn_cast<StartOpInterface>(op))
    return prepareStart(start, at);
  size_t used = 0;
  SmallVector<Write> &written = writes[&op];
  for (OpResult result : op.getResults()) {
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (!type)
      continue;
    if (Value source = getViewSource(result)) {
      // A view of a constant is one.
      if (unsigned id = getContents(source); id != kNone)
        contentsOf[result] = id;
      continue;
    }
    if (used == at.size())
      return op.emitOpError("has more tensors of its own than its ")
             << at.size() << " addresses";
    contentsOf[result] =
        make(getCheckedAddress(at[used++], memories.get(result)), bytesOf(type),
             result.getLoc(), type);
    written.push_back({contentsOf[result], Value()});
  }
  if (used != at.size())
    return op.emitOpError("has ")
           << used << " tensors of its own and " << at.size() << " addresses";
  return findUpdates(op, written);
}

LogicalResult PlannedContents::findUpdates(Operation &op,
                                           SmallVector<Write> &written) {
  if (auto accumulate = dyn_cast<AccumulateOp>(op)) {
    // Where the sum or the summand lies.
    Value into = accumulate.getInto();
    unsigned id = getContents(into);
    bool grows = id != kNone &&
                 contents[id].begin == contents[written.front().contents].begin;
    return setUpdate(op, written.front(),
                     grows ? into : accumulate.getGradient());
  }
  if (auto pack = dyn_cast<PackOp>(op)) {
    // Its parts may be where they belong.
    int64_t element =
        aten::getElementBytes(pack.getResult().getType().getElementType());
    const Contents &whole = contents[written.front().contents];
    for (auto [input, offset] :
         llvm::zip_equal(pack.getInputs(), pack.getOffsets()))
      if (unsigned id = getContents(input);
          id != kNone && isWhole(input) &&
          aten::isContiguous(cast<RankedTensorType>(input.getType())) &&
          contents[id].begin == whole.begin + offset * element)
        parts[&op].insert(id);
    return success();
  }
  auto optimizer = dyn_cast<UpdateOp>(op);
  if (!optimizer)
    return success();
  Write *next = written.begin();
  for (auto [what, olds, news] : optimizer.getUpdates())
    for (Value old : olds)
      if (failed(setUpdate(op, *next++, old)))
        return failure();
  return success();
}

LogicalResult PlannedContents::setUpdate(Operation &op, Write &write,
                                         Value operand) {
  unsigned id = getContents(operand);
  const Contents &own = contents[write.contents];
  // What comes of partial sums of grains may lie where the first of them did.
  auto sum = dyn_cast<AccumulateOp>(op);
  int64_t bytes = bytesOf(operand.getType());
  bool fits = bytes == own.bytes || (sum && sum.getTree() && bytes > own.bytes);
  if (id == kNone || contents[id].begin != own.begin || !isWhole(operand) ||
      !fits)
    return op.emitOpError("updates an operand in place; its result lies at ")
           << getPlainAddress(own.begin) << ", and the operand "
           << (id == kNone ? "is a constant"
                           : "at " + std::to_string(
                                         getPlainAddress(contents[id].begin)));
  write.inPlaceOf = operand;
  return success();
}

LogicalResult PlannedContents::prepareStart(StartOpInterface op,
                                            ArrayRef<int64_t> at) {
  ArrayRef<Type> types = op.getPromised();
  if (at.size() != types.size())
    return op->emitOpError("has ") << types.size() << " tensors of its own and "
                                   << at.size() << " addresses";
  for (auto [number, type] : llvm::enumerate(types)) {
    Value operand = op.getInputs()[number];
    int64_t bytes = bytesOf(type);
    if (isStart(op, Collective::AllGather))
      bytes = bytesOf(operand.getType()) * op.getGroup().getSize();
    auto copy = dyn_cast<CopyStartOp>(op.getOperation());
    MemorySpace to = copy ? copy.getTo() : MemorySpace::Device;
    unsigned id = make(getCheckedAddress(at[number], to), bytes, op->getLoc(),
                       cast<RankedTensorType>(type));
    writes[op].push_back({id, Value()});
    if (op.isInPlace() &&
        failed(setUpdate(*op.getOperation(), writes[op].back(), operand)))
      return failure();
  }
  return success();
}

LogicalResult PlannedContents::prepareWait(WaitOp wait) {
  StartOpInterface start = wait.getStart();
  for (Value operand : start.getInputs()) {
    // An all-reduce has replaced them.
    if (!start.isInPlace())
      noteRead(operand, now);
    if (auto it = paddings.find(getContents(operand)); it != paddings.end())
      contents[it->second].lastRead = now;
  }
  for (auto [result, write] :
       llvm::zip_equal(wait.getResults(), writes[start])) {
    contentsOf[result] = write.contents;
    noteRead(result, now);
  }
  return success();
}

int64_t PlannedContents::getPaddedBytes(Type type, int64_t dim,
                                        GroupAttr group) {
  auto tensor = cast<RankedTensorType>(type);
  return bytesOf(getShardType(tensor, dim, group)) * group.getSize();
}

void PlannedContents::preparePadding(ZeroPaddingOp op) {
  Value tensor = op.getTensor();
  unsigned of = getContents(tensor);
  if (of == kNone)
    return;
  int64_t begin = contents[of].getEnd();
  int64_t bytes = getPaddedBytes(tensor.getType(), op.getDim(), op.getGroup()) -
                  contents[of].bytes;
  unsigned id = make(begin, bytes, op.getLoc(), RankedTensorType());
  paddings[of] = id;
  writes[op].push_back({id, Value()});
}

bool PlannedContents::isKept(StateOp state) const {
  return held.contains(state) && !spare.contains(state);
}

StateOp PlannedContents::getResultState(unsigned number) {
  return states.lookup(
      program.getResultAttrOfType<FlatSymbolRefAttr>(number, kStateAttr));
}

LogicalResult PlannedContents::prepareReturn(Operation &op) {
  for (OpOperand &operand : op.getOpOperands()) {
    unsigned number = operand.getOperandNumber();
    StateOp state = getResultState(number);
    unsigned id = getContents(operand.get());
    if (!state) {
      noteRead(operand.get(), kForever);
      continue;
    }
    const Contents &old = contents[held.at(state)];
    if (id != kNone && contents[id].begin == old.begin &&
        contents[id].bytes == old.bytes && isWhole(operand.get())) {
      held[state] = id; // it is there
      continue;
    }
    noteRead(operand.get(), now + number);
    copies.push_back({operand.get(), make(old.begin, old.bytes, op.getLoc(),
                                          state.getLocalType())});
    copies.back().time = now + number;
    held[state] = copies.back().contents;
  }
  for (StateOp state : states.getStates())
    if (isKept(state))
      contents[held.at(state)].lastRead = kForever;
  return success();
}

//===- Liveness.cpp - Storages of a scheduled program ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/Liveness.h"

#include "ir/aten/Aten.h"
#include "ir/aten/Matchers.h"
#include "passes/analysis/InPlace.h"
#include "passes/analysis/Views.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace fsdp;

static int64_t bytesOf(Type type) {
  return aten::getStorageBytes(cast<RankedTensorType>(type));
}

//===----------------------------------------------------------------------===//
// Queries
//===----------------------------------------------------------------------===//

unsigned Liveness::resolve(unsigned storage) const {
  return mergedInto[storage] == kNone ? storage : mergedInto[storage];
}

unsigned Liveness::getStorage(Value value) const {
  auto it = places.find(value);
  return it == places.end() ? kNone : resolve(it->second.storage);
}

ArrayRef<unsigned> Liveness::getPromised(Operation *start) const {
  auto it = promised.find(start);
  return it == promised.end() ? ArrayRef<unsigned>() : it->second;
}

SmallVector<unsigned> Liveness::getOwned(Operation *op) const {
  SmallVector<unsigned> owned(getPromised(op));
  if (isa<StartOpInterface>(op) || isa<WaitOp>(op))
    return owned;
  for (OpResult result : op->getResults())
    if (unsigned storage = getStorage(result);
        storage != kNone && !getViewSource(result))
      owned.push_back(storage);
  return owned;
}

//===----------------------------------------------------------------------===//
// The walk
//===----------------------------------------------------------------------===//

unsigned Liveness::add(StorageKind kind, int64_t bytes, int64_t now,
                       Value value, MemorySpace memory) {
  unsigned index = storages.size();
  storages.push_back({kind, bytes, now, now, value, {}, memory});
  mergedInto.push_back(kNone);
  partOf.push_back({kNone, 0});
  generations.push_back(0);
  writers.push_back(nullptr);
  lastReads.push_back(now);
  if (value)
    places[value] = {index, 0};
  return index;
}

void Liveness::share(Value value, unsigned storage) {
  places[value] = {storage, generations[storage]};
}

void Liveness::use(Value value, Operation *reader, int64_t now) {
  auto it = places.find(value);
  if (it == places.end())
    return;
  auto [storage, generation] = it->second;
  storages[storage].last = std::max(storages[storage].last, now);
  if (isa<FreeOp>(reader))
    return;
  lastReads[storage] = std::max(lastReads[storage], now);
  if (generation != generations[storage])
    staleReads.push_back({reader, value, writers[storage]});
}

void Liveness::overwrite(unsigned storage, Operation *writer) {
  ++generations[storage];
  writers[storage] = writer;
}

/// The kind of a copy of `source` in another memory.
static StorageKind getKindOfCopy(const Storage &source, func::FuncOp program) {
  if (source.kind != StorageKind::State)
    return source.kind == StorageKind::Input ? StorageKind::Activation
                                             : source.kind;
  auto module = program->getParentOfType<ModuleOp>();
  auto state =
      module ? module.lookupSymbol<StateOp>(source.state.getAttr()) : StateOp();
  return state && isParameter(state) ? StorageKind::Gathered
                                     : StorageKind::Activation;
}

void Liveness::visitStart(StartOpInterface op, int64_t now) {
  auto copy = dyn_cast<CopyStartOp>(op.getOperation());
  int64_t size = op.getGroup() ? op.getGroup().getSize() : 1;
  SmallVector<unsigned, 4> &outputs = promised[op];
  for (auto [input, type] : llvm::zip_equal(op.getInputs(), op.getPromised())) {
    unsigned source = getStorage(input);
    if (op.isInPlace() && source != kNone) {
      overwrite(source, op);
      outputs.push_back(source);
      continue;
    }
    StorageKind kind = StorageKind::Activation;
    MemorySpace memory = MemorySpace::Device;
    int64_t bytes = bytesOf(type);
    if (copy) {
      memory = copy.getTo();
      if (source != kNone)
        kind = getKindOfCopy(storages[source],
                             op->getParentOfType<func::FuncOp>());
    } else if (isStart(op, Collective::AllGather)) {
      kind = StorageKind::Gathered;
      bytes = bytesOf(input.getType()) * size;
    } else if (asCutting(op)) {
      kind = StorageKind::Gradient;
      if (source != kNone && storages[source].kind == StorageKind::Activation)
        storages[source].kind = StorageKind::Gradient;
      // With rows of padding behind the last rank's.
      int64_t parts = isStart(op, Collective::AllToAll) ? 1 : size;
      if (source != kNone)
        storages[source].bytes =
            std::max(storages[source].bytes,
                     bytesOf(cast<RankedTensorType>(type).clone(
                         getElementTypeOrSelf(input.getType()))) *
                         parts);
    }
    outputs.push_back(add(kind, bytes, now, Value(), memory));
  }
}

void Liveness::visitWait(WaitOp op, int64_t now) {
  StartOpInterface start = op.getStart();
  // The transfer held them until now. Not a read: an all-reduce has already
  // overwritten its operands.
  for (Value input : start.getInputs())
    if (auto it = places.find(input); it != places.end()) {
      unsigned storage = it->second.storage;
      storages[storage].last = std::max(storages[storage].last, now);
      lastReads[storage] = std::max(lastReads[storage], now);
    }
  for (auto [result, storage] :
       llvm::zip_equal(op.getResults(), getPromised(start))) {
    share(result, storage);
    if (!storages[storage].value)
      storages[storage].value = result;
    storages[storage].last = std::max(storages[storage].last, now);
  }
}

void Liveness::visitAccumulate(AccumulateOp op) {
  Value gradient = op.getGradient();
  unsigned own = getStorage(gradient), place = getStorage(op.getInto());
  bool isLeft = llvm::any_of(op->getUsers(), [](Operation *user) {
    return user->hasTrait<OpTrait::IsTerminator>();
  });
  if (!isLeft && own != kNone && storages[own].value == gradient &&
      storages[own].kind != StorageKind::State &&
      storages[own].kind != StorageKind::Input && gradient.hasOneUse() &&
      gradient.getType() == op.getResult().getType())
    place = own;
  if (place == kNone)
    return;
  overwrite(place, op);
  share(op.getResult(), place);
}

/// Whether `value`, or what it is a view of, is made for the packing alone and
/// fills a storage, which no transfer writes.
bool Liveness::canBePart(Value value) const {
  auto it = places.find(value);
  if (it == places.end())
    return false;
  unsigned index = it->second.storage;
  const Storage &storage = storages[index];
  if (storage.kind != StorageKind::Activation || partOf[index].whole != kNone ||
      !aten::isContiguous(cast<RankedTensorType>(value.getType())) ||
      storage.bytes != bytesOf(value.getType()))
    return false;
  while (value.hasOneUse()) {
    auto result = dyn_cast<OpResult>(value);
    if (!result || isa<WaitOp, PackOp>(result.getOwner()))
      return false;
    Value source = getViewSource(result);
    if (auto sum = dyn_cast<AccumulateOp>(result.getOwner()))
      source = sum.getGradient();
    if (!source)
      return storage.value == value;
    value = source;
  }
  return false;
}

void Liveness::visitPack(PackOp op, int64_t now) {
  auto type = cast<RankedTensorType>(op.getResult().getType());
  unsigned whole = add(StorageKind::Activation, bytesOf(type), now,
                       op.getResult(), memories.get(op.getResult()));
  int64_t element = aten::getElementBytes(type.getElementType());
  for (auto [input, offset] : llvm::zip_equal(op.getInputs(), op.getOffsets()))
    if (canBePart(input)) {
      unsigned index = places.at(input).storage;
      partOf[index] = {whole, offset * element};
      storages[whole].first =
          std::min(storages[whole].first, storages[index].first);
    }
}

void Liveness::visitOptimizer(UpdateOp op) {
  for (Value gradient : op.getGrads())
    if (unsigned storage = getStorage(gradient);
        storage != kNone && storages[storage].kind == StorageKind::Activation)
      storages[storage].kind = StorageKind::Gradient;
  for (auto [what, operands, results] : op.getUpdates())
    for (auto [operand, result] : llvm::zip_equal(operands, results)) {
      unsigned storage = getStorage(operand);
      if (storage == kNone)
        continue;
      overwrite(storage, op);
      share(result, storage);
    }
}

void Liveness::visit(Operation &op, int64_t now) {
  for (Value operand : op.getOperands())
    use(operand, &op, now);
  if (auto start = dyn_cast<StartOpInterface>(op))
    return visitStart(start, now);
  if (auto wait = dyn_cast<WaitOp>(op))
    return visitWait(wait, now);
  if (auto accumulate = dyn_cast<AccumulateOp>(op))
    return visitAccumulate(accumulate);
  if (auto pack = dyn_cast<PackOp>(op))
    return visitPack(pack, now);
  if (auto optimizer = dyn_cast<UpdateOp>(op))
    return visitOptimizer(optimizer);
  if (isa<ConstantOp>(op))
    return;
  for (OpResult result : op.getResults()) {
    if (!isa<RankedTensorType>(result.getType()))
      continue;
    Value source = getViewSource(result);
    if (!source) {
      // What blocks of codes stand for is a parameter, and parts that ranks
      // exchanged sum up to a gradient.
      add(isa<DequantizeOp>(op) ? StorageKind::Gathered
          : isa<SumPartsOp>(op) ? StorageKind::Gradient
                                : StorageKind::Activation,
          bytesOf(result.getType()), now, result, memories.get(result));
      continue;
    }
    // A view of a constant is a constant.
    if (auto it = places.find(source); it != places.end()) {
      Place place = it->second;
      places[result] = place;
    }
  }
}

/// Whether `result`, which is alone in `storage`, may be made in the place of a
/// state whose new value it is.
bool Liveness::canLieIn(OpResult result, unsigned storage,
                        unsigned state) const {
  Operation *op = result.getOwner();
  int64_t lastRead = lastReads[state];
  if (auto wait = dyn_cast<WaitOp>(op)) {
    // The transfer writes from its start on.
    StartOpInterface start = wait.getStart();
    return !start.isInPlace() && lastRead < positions.lookup(start) &&
           storages[storage].bytes <= storages[state].bytes;
  }
  if (getViewSource(result) ||
      storages[storage].kind != StorageKind::Activation)
    return false;
  // What is packed is made there before it is packed.
  int64_t now = std::min(positions.lookup(op), storages[storage].first);
  // The op itself may read the old value if it does so element by element.
  bool onlyAsItself = llvm::all_of(op->getOpOperands(), [&](OpOperand &each) {
    return getStorage(each.get()) != state ||
           (isa<BlockArgument>(each.get()) &&
            each.get().getType() == result.getType() && canBeInPlace(each));
  });
  return lastRead < now ||
         (lastRead == now && !aten::isAddedProduct(op) && onlyAsItself);
}

void Liveness::placeResults(func::FuncOp program) {
  DenseMap<Attribute, unsigned> states;
  for (BlockArgument argument : program.getArguments())
    if (auto state = program.getArgAttr(argument.getArgNumber(), kStateAttr))
      states[state] = getStorage(argument);
  Operation *terminator = program.getBody().front().getTerminator();
  for (OpOperand &operand : terminator->getOpOperands()) {
    unsigned number = operand.getOperandNumber();
    Attribute state = program.getResultAttr(number, kStateAttr);
    auto it = states.find(state);
    if (!state || it == states.end())
      continue;
    unsigned storage = getStorage(operand.get());
    if (storage == it->second)
      continue;
    if (auto result = dyn_cast<OpResult>(operand.get());
        result && storage != kNone && partOf[storage].whole == kNone &&
        storages[storage].value == result &&
        storages[storage].memory == storages[it->second].memory &&
        canLieIn(result, storage, it->second)) {
      mergedInto[storage] = it->second;
      lastReads[it->second] = end;
      continue;
    }
    copies.push_back(number);
  }
}

/// Whether `operand` is all of what lies in a place, `whole`; where `inShapes`
/// in another shape, too.
static bool isAllOf(Value operand, Value whole, bool inShapes) {
  while (inShapes && operand && operand != whole)
    operand = getReshapedSource(operand);
  return operand == whole;
}

/// Whether the result that is in `own` may be made in the place of `operand`,
/// at `now`. `whole`: what fills a storage by then, its first value or what
/// took that one's place.
bool Liveness::canReuse(OpOperand &operand, OpResult result, int64_t now,
                        ArrayRef<Value> whole) const {
  auto isTransient = [&](unsigned storage) {
    return storages[storage].kind == StorageKind::Activation ||
           storages[storage].kind == StorageKind::Gradient;
  };
  unsigned own = places.at(result).storage, place = getStorage(operand.get());
  bool isSum = aten::isAddedProduct(result.getOwner());
  // Both take any shape of the same memory.
  bool inShapes = isSum || isa<KernelOp>(result.getOwner());
  if (place == kNone || place == own || !isTransient(place) ||
      partOf[place].whole != kNone || lastReads[place] != now ||
      storages[place].memory != storages[own].memory ||
      !isAllOf(operand.get(), whole[place], inShapes) ||
      operand.get().getType() != result.getType())
    return false;
  // A sum may have room for the padding rows that its reduction needs.
  if (storages[own].bytes > storages[place].bytes && !isSum)
    return false;
  // Parts of it, in another order perhaps, are read meanwhile.
  return llvm::none_of(result.getOwner()->getOperands(), [&](Value other) {
    return other != operand.get() && getStorage(other) == place;
  });
}

void Liveness::reuseFor(OpResult result, int64_t now,
                        MutableArrayRef<Value> whole) {
  auto it = places.find(result);
  if (it == places.end() || getViewSource(result))
    return;
  unsigned own = it->second.storage;
  if (isMerged(own) || storages[own].kind == StorageKind::State ||
      storages[own].kind == StorageKind::Gathered)
    return;
  for (OpOperand &operand : result.getOwner()->getOpOperands()) {
    if (!canBeInPlace(operand) || !canReuse(operand, result, now, whole))
      continue;
    unsigned place = getStorage(operand.get());
    mergedInto[own] = place;
    Storage &storage = storages[place];
    storage.bytes = std::max(storage.bytes, storages[own].bytes);
    whole[place] = result;
    lastReads[place] = lastReads[own];
    storage.last = std::max(storage.last, storages[own].last);
    if (storages[own].kind == StorageKind::Gradient)
      storage.kind = StorageKind::Gradient;
    return;
  }
}

void Liveness::reuseDeadOperands(func::FuncOp program, bool onlySums) {
  SmallVector<Value, 0> whole;
  for (const Storage &storage : storages)
    whole.push_back(storage.value);
  int64_t now = -1;
  for (Operation &op : program.getBody().front()) {
    ++now;
    if (onlySums ? aten::isAddedProduct(&op)
                 : op.getNumResults() == 1 || isa<KernelOp>(op))
      for (OpResult result : op.getResults())
        reuseFor(result, now, whole);
  }
}

Liveness::Liveness(func::FuncOp program) : memories(program) {
  Block &body = program.getBody().front();
  end = 0;
  for (Operation &op : body)
    positions[&op] = end++;
  --end;
  for (BlockArgument argument : program.getArguments()) {
    auto state = program.getArgAttrOfType<FlatSymbolRefAttr>(
        argument.getArgNumber(), kStateAttr);
    unsigned index =
        add(state ? StorageKind::State : StorageKind::Input,
            bytesOf(argument.getType()), -1, argument, memories.get(argument));
    storages[index].state = state;
    storages[index].last = end;
  }
  int64_t now = 0;
  for (Operation &op : body)
    visit(op, now++);
  placeResults(program);
  if (Attribute reuse = program->getAttr(kReuseAttr))
    reuseDeadOperands(program, /*onlySums=*/isa<StringAttr>(reuse));
  for (auto &[start, outputs] : promised)
    for (unsigned &storage : outputs)
      storage = resolve(storage);
}

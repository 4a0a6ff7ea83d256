//===- ValueNumbering.cpp - Equal computations get equal numbers ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/ValueNumbering.h"
#include "support/LossWeight.h"

#include "mlir/IR/TypeUtilities.h"

#include "ir/aten/Aten.h"
#include "ir/aten/Matchers.h"
#include "passes/analysis/Entries.h"
#include "passes/analysis/GradientChains.h"
#include "passes/analysis/Marks.h"
#include "passes/analysis/Outputs.h"
#include "passes/analysis/Transfers.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fsdp;

// First words of keys, so that arguments and ops never share one.
enum : uintptr_t {
  kArgument = 1,
  kAnonymousArgument = 2,
  kOp = 3,
  kPadded = 4,
  kFlat = 5
};

ValueNumbering::Number ValueNumbering::intern(Key key, unsigned size,
                                              Operation *op) {
  auto it = table.find(key);
  if (it != table.end())
    return it->second;
  Number first = next;
  table[key.copy(allocator)] = first;
  if (op)
    for (unsigned i = 0; i < size; ++i)
      ops[first + i] = op;
  next += size;
  return first;
}

void ValueNumbering::numberGathered(Value full, Value shard) {
  Number number = numbers.lookup(shard);
  numbers[full] = number;
  BlockArgument source = getShardSource(shard);
  StateOp param =
      source ? states->lookup(current, source.getArgNumber()) : StateOp();
  if (!param || !param.getSharding())
    return;
  int64_t dim = param.getSharding().getDim();
  int64_t rows = param.getGlobalType().getDimSize(dim);
  if (cast<RankedTensorType>(full.getType()).getDimSize(dim) == rows)
    return;
  uintptr_t key[] = {kPadded, number};
  Number whole = intern(key, 1, nullptr);
  padded[whole] = {number, rows, dim};
  numbers[full] = whole;
}

bool ValueNumbering::cutsPadding(Operation &op) {
  // Along another dim than the first, what is cut is copied.
  if (aten::isClone(&op))
    if (Operation *cut = op.getOperand(0).getDefiningOp();
        aten::matchSlice(cut) &&
        padded.contains(numbers.lookup(cut->getOperand(0))) &&
        cutsPadding(*cut)) {
      numbers[op.getResult(0)] = numbers.lookup(op.getOperand(0));
      return true;
    }
  std::optional<aten::Slice> slice = aten::matchSlice(&op);
  if (!slice)
    return false;
  auto it = padded.find(numbers.lookup(op.getOperand(0)));
  if (it == padded.end())
    return false;
  auto [number, rows, dim] = it->second;
  if (slice->dim != dim || slice->start != 0 || slice->end != rows ||
      slice->step != 1)
    return false;
  numbers[op.getResult(0)] = number;
  return true;
}

ValueNumbering::Number ValueNumbering::internFlat(StateOp flat,
                                                  ArrayRef<Number> parts) {
  auto name = FlatSymbolRefAttr::get(flat.getSymNameAttr());
  SmallVector<uintptr_t> key{kFlat, uintptr_t(name.getAsOpaquePointer())};
  llvm::append_range(key, parts);
  Number number = intern(key, 1, nullptr);
  flats.try_emplace(
      number, FlatParts{name, SmallVector<Number>(parts.begin(), parts.end())});
  return number;
}

bool ValueNumbering::packsMembers(PackOp op) {
  StateOp flat = states->lookup(op.getOfAttr());
  if (!flat)
    return false;
  ArrayRef<StateOp> members = states->getMembers(flat);
  if (members.size() != op.getInputs().size() ||
      cast<RankedTensorType>(op.getResult().getType()).getShape() !=
          flat.getGlobalType().getShape())
    return false;
  SmallVector<Number> parts;
  for (auto [each, input, offset] :
       llvm::zip(members, op.getInputs(), op.getOffsets())) {
    StateOp member = each;
    if (member.getPart().getOffset() != offset ||
        member.getGlobalType().getShape() !=
            cast<RankedTensorType>(input.getType()).getShape())
      return false;
    parts.push_back(numbers.lookup(input));
  }
  numbers[op.getResult()] = internFlat(flat, parts);
  return true;
}

bool ValueNumbering::takesMember(UnpackOp op) {
  auto it = flats.find(numbers.lookup(op.getPacked()));
  if (it == flats.end())
    return false;
  for (auto [each, part] :
       llvm::zip(states->getMembers(states->lookup(it->second.flat)),
                 it->second.parts)) {
    StateOp member = each;
    if (member.getPart().getOffset() == int64_t(op.getOffset()) &&
        member.getGlobalType().getShape() ==
            cast<RankedTensorType>(op.getResult().getType()).getShape()) {
      numbers[op.getResult()] = part;
      return true;
    }
  }
  return false;
}

ValueNumbering::Number ValueNumbering::numberCast(Operation &op,
                                                  Number operand) {
  uintptr_t key[] = {
      kOp, uintptr_t(op.getName().getAsOpaquePointer()),
      uintptr_t(op.getPropertiesAsAttribute().getAsOpaquePointer()), operand};
  Number number = intern(key, 1, &op);
  castOperands[number] = operand;
  return number;
}

bool ValueNumbering::numberFlat(Operation &op) {
  if (auto pack = dyn_cast<PackOp>(op))
    return packsMembers(pack);
  if (auto unpack = dyn_cast<UnpackOp>(op))
    return takesMember(unpack);
  auto it = op.getNumOperands() == 1
                ? flats.find(numbers.lookup(op.getOperand(0)))
                : flats.end();
  if (it == flats.end() || !aten::isCast(&op))
    return false;
  FlatParts held = it->second;
  for (Number &part : held.parts)
    part = numberCast(op, part);
  numbers[op.getResult(0)] = internFlat(states->lookup(held.flat), held.parts);
  return true;
}

bool ValueNumbering::growsItsSum(AccumulateOp op) const {
  auto into = dyn_cast<BlockArgument>(op.getInto());
  StateOp sum = into ? states->lookup(current, into.getArgNumber()) : StateOp();
  int64_t divisor = getStepPart(current) == StepPart::Last && !op.getTree()
                        ? getMicroBatches(current->getParentOfType<ModuleOp>())
                        : 1;
  if (!sum || int64_t(op.getDivisor().value_or(1)) != divisor)
    return false;
  return op.getOf() ? sum.getRole() == Role::Gradient &&
                          sum.getOfAttr() == op.getOfAttr()
                    : sum.getRole() == Role::Scalar;
}

bool ValueNumbering::passThrough(Operation &op) {
  if (isa<StartOpInterface>(op))
    return true; // The wait looks its members up.
  auto forwarding = dyn_cast<ForwardingOpInterface>(op);
  if (!forwarding)
    return cutsPadding(op);
  if (auto sum = dyn_cast<AccumulateOp>(op); sum && !growsItsSum(sum))
    return false;
  auto wait = dyn_cast<WaitOp>(op);
  Operation *mover = wait ? wait.getStart().getOperation() : &op;
  bool isGathered = isa_and_nonnull<AllGatherOp>(mover) ||
                    isStart(mover, Collective::AllGather);
  for (OpResult result : op.getResults()) {
    Value source = forwarding.getForwarded(result);
    if (source)
      source = getReduced(source, result.getType());
    if (!source)
      return false;
    if (isGathered)
      numberGathered(result, source);
    else
      numbers[result] = numbers.lookup(source);
  }
  return op.getNumResults() != 0;
}

// What a rank computes of a tensor has static arguments of its own.
static Attribute getCapturedProperties(Operation &op) {
  if (DictionaryAttr whole = getWholeProperty(&op))
    return whole;
  return op.getPropertiesAsAttribute();
}

// Around exchanges parts of tensors are brought into their order in memory, and
// back: the same values.
bool ValueNumbering::undoesPermute(Operation &op, ArrayRef<int64_t> order) {
  auto before = permuted.find(numbers.lookup(op.getOperand(0)));
  if (before == permuted.end())
    return false;
  auto [source, first] = before->second;
  for (auto [to, from] : llvm::enumerate(order))
    if (first[from] != int64_t(to))
      return false;
  numbers[op.getResult(0)] = source;
  return true;
}

void ValueNumbering::numberOp(Operation &op) {
  if (passThrough(op) || numberFlat(op))
    return;
  // A copy holds the same values.
  if (aten::isClone(&op)) {
    numbers[op.getResult(0)] = numbers.lookup(op.getOperand(0));
    return;
  }
  std::optional<SmallVector<int64_t>> order = aten::matchPermute(&op);
  if (order && undoesPermute(op, *order))
    return;
  SmallVector<uintptr_t> key{
      kOp, uintptr_t(op.getName().getAsOpaquePointer()),
      uintptr_t(getCapturedProperties(op).getAsOpaquePointer())};
  for (Value operand : op.getOperands())
    key.push_back(numbers.lookup(operand));
  Number first = intern(key, op.getNumResults(), &op);
  for (OpResult result : op.getResults())
    numbers[result] = first + result.getResultNumber();
  if (order)
    permuted.try_emplace(first,
                         Permuted{numbers.lookup(op.getOperand(0)), *order});
  if (aten::isCast(&op))
    castOperands[first] = numbers.lookup(op.getOperand(0));
  // A cast of a number to f32 may be one that only the metrics read.
  if (aten::isCast(&op) &&
      op.getResult(0).getType() ==
          RankedTensorType::get({}, Float32Type::get(op.getContext())))
    metricOperands[first] = numbers.lookup(op.getOperand(0));
}

bool ValueNumbering::isMetricOf(Number number, Number other) const {
  auto it = metricOperands.find(number);
  return it != metricOperands.end() && it->second == other;
}

bool ValueNumbering::isCastOf(Number number, Number other) const {
  auto it = castOperands.find(number);
  return it != castOperands.end() && it->second == other;
}

Operation *ValueNumbering::findFirstUnknown(Number number, Number known) const {
  // Numbers are given in the order of the block.
  Number first = next;
  llvm::DenseSet<Number> seen;
  SmallVector<Number> worklist{number};
  while (!worklist.empty()) {
    Number current = worklist.pop_back_val();
    if (current < known || !seen.insert(current).second)
      continue;
    if (auto it = flats.find(current); it != flats.end())
      llvm::append_range(worklist, it->second.parts);
    // Arguments and padded tensors have none.
    if (Operation *op = getOp(current)) {
      first = std::min(first, current);
      for (Value operand : op->getOperands())
        worklist.push_back(numbers.lookup(operand));
    }
  }
  return getOp(first);
}

namespace {
/// Follows each gradient through its reductions and the cast behind them to the
/// parameter's own type, which capture had in front: what comes out is what was
/// captured as the gradient.
class GradientFollower {
public:
  struct Chain {
    Attribute of;
    Value end;
    Location loc;
  };

  explicit GradientFollower(const StateTable &states) : states(states) {}

  ArrayRef<Chain> get() const { return chains; }

  void visit(Operation &op) {
    if (auto start = dyn_cast<StartOpInterface>(op)) {
      for (auto [i, value] : llvm::enumerate(start.getInputs()))
        if (Attribute of = start.getGradientOf(i))
          if (Value from = getReduced(value, start.getPromised()[i]))
            extend(of, from, value, op.getLoc());
    } else if (auto reduction = dyn_cast<ReductionOpInterface>(op)) {
      if (Attribute of = reduction.getGradientOf(0))
        if (Value from =
                getReduced(op.getOperand(0), op.getResult(0).getType()))
          extend(of, from, op.getResult(0), op.getLoc());
    } else if (auto sum = dyn_cast<AccumulateOp>(op)) {
      if (Attribute of = sum.getOfAttr())
        extend(of, sum.getGradient(), sum.getResult(), op.getLoc());
    } else if (isa<CopyOp, DecodeOp>(op)) {
      move(op.getOperand(0), op.getResult(0));
    } else if (isa<WaitOp>(op)) {
      for (OpResult result : op.getResults())
        move(getTransferred(result), result);
    } else if (aten::isCast(&op)) {
      auto it = chainOf.find(op.getOperand(0));
      if (it != chainOf.end() && endsAsParameter(it->second, op))
        move(op.getOperand(0), op.getResult(0));
    }
  }

private:
  void extend(Attribute of, Value from, Value to, Location loc) {
    auto it = chainOf.find(from);
    if (it == chainOf.end() || chains[it->second].of != of) {
      chains.push_back({of, to, loc});
      chainOf[to] = chains.size() - 1;
    } else {
      move(from, to);
    }
  }

  void move(Value from, Value to) {
    auto it = from ? chainOf.find(from) : chainOf.end();
    if (it == chainOf.end())
      return;
    size_t chain = it->second;
    chainOf.erase(it);
    chains[chain].end = to;
    chainOf[to] = chain;
  }

  bool endsAsParameter(size_t chain, Operation &cast) {
    StateOp state =
        states.lookup(dyn_cast<FlatSymbolRefAttr>(chains[chain].of));
    return state && state.isReducedInOtherType() &&
           getElementTypeOrSelf(cast.getResult(0).getType()) ==
               state.getGlobalType().getElementType();
  }

  const StateTable &states;
  SmallVector<Chain> chains;
  llvm::DenseMap<Value, size_t> chainOf; ///< by its end so far
};
} // namespace

void ValueNumbering::numberArgument(BlockArgument argument) {
  unsigned i = argument.getArgNumber();
  Attribute name = current.getArgAttr(i, kStateAttr);
  if (!name)
    name = current.getArgAttr(i, kInputAttr);
  auto known = kept.find(name);
  if (name && known != kept.end()) {
    numbers[argument] = known->second;
    return;
  }
  StateOp state = states->lookup(current, i);
  if (state && state.isFlat()) {
    SmallVector<Number> parts;
    for (StateOp member : states->getMembers(state)) {
      auto ref = FlatSymbolRefAttr::get(member.getSymNameAttr());
      uintptr_t part[] = {kArgument, uintptr_t(ref.getAsOpaquePointer())};
      parts.push_back(intern(part, 1, nullptr));
    }
    numbers[argument] = internFlat(state, parts);
    return;
  }
  uintptr_t key[] = {name ? kArgument : kAnonymousArgument,
                     name ? uintptr_t(name.getAsOpaquePointer()) : i};
  numbers[argument] = intern(key, 1, nullptr);
}

ValueNumbering::Observation &ValueNumbering::observe(StringRef what,
                                                     StringRef name,
                                                     Value value,
                                                     Location loc) {
  observed.push_back({llvm::formatv("{0} '{1}'", what, name).str(),
                      numbers.lookup(value), loc});
  return observed.back();
}

void ValueNumbering::observeGradient(Attribute of, Value value, Location loc) {
  auto name = dyn_cast_or_null<FlatSymbolRefAttr>(of);
  if (!name)
    return;
  StateOp state = states->lookup(name);
  bool isBeforeCast = state && state.isReducedInOtherType() &&
                      getElementTypeOrSelf(value.getType()) !=
                          state.getGlobalType().getElementType();
  if (!state || !state.isFlat()) {
    observe("gradient of", name.getValue(), value, loc).isBeforeCast =
        isBeforeCast;
    return;
  }
  auto held = flats.find(numbers.lookup(value));
  bool isWhole = held != flats.end() && held->second.flat == name;
  for (auto [i, each] : llvm::enumerate(states->getMembers(state))) {
    StateOp member = each;
    Observation &seen = observe("gradient of", member.getSymName(), value, loc);
    seen.isBeforeCast = isBeforeCast;
    if (isWhole)
      seen.number = held->second.parts[i];
  }
}

void ValueNumbering::observeResult(unsigned i, Value value) {
  Location loc = value.getLoc();
  observeGradient(current.getResultAttr(i, kGradientAttr), value, loc);
  if (auto name = current.getResultAttrOfType<StringAttr>(i, kOutputAttr)) {
    if (name.getValue() != kGradNormOutput)
      observe("output", name.getValue(), value, loc);
    return;
  }
  if (current.getResultAttr(i, kNormsOfAttr))
    return;
  if (auto name = current.getResultAttrOfType<StringAttr>(i, kMetricAttr)) {
    if (name.getValue() != kLossScaleMetric)
      observe("output", name.getValue(), value, loc).isMetric =
          name != kLossWeight;
    return;
  }
  auto bound = current.getResultAttrOfType<FlatSymbolRefAttr>(i, kStateAttr);
  StateOp state = states->lookup(bound);
  if (!state)
    return;
  Role role = state.getRole();
  if (role == Role::Gradient)
    observeGradient(state.getOfAttr(), value, loc);
  if (role == Role::Gathered) {
    auto [it, isNew] = kept.try_emplace(bound, numbers.lookup(value));
    if (!isNew && it->second != numbers.lookup(value))
      observe("gathered", state.getSymName(), value, loc);
  }
  if (role == Role::Buffer || role == Role::Random)
    observe("new value of", state.getSymName(), value, loc).isRandom =
        role == Role::Random;
}

SmallVector<ValueNumbering::Observation>
ValueNumbering::run(func::FuncOp func) {
  numbers.clear();
  StateTable table(func->getParentOfType<ModuleOp>());
  current = func;
  states = &table;
  for (BlockArgument argument : func.getArguments())
    numberArgument(argument);
  Block &body = func.getBody().front();
  GradientFollower chains(table);
  for (Operation &op : body.without_terminator()) {
    chains.visit(op);
    if (auto update = dyn_cast<UpdateOp>(op))
      for (auto [param, grad] :
           llvm::zip(update.getParams(), update.getGrads()))
        if (BlockArgument argument = getUpdatedArgument(param))
          observeGradient(func.getArgAttr(argument.getArgNumber(), kStateAttr),
                          grad, op.getLoc());
    numberOp(op);
  }
  for (const GradientFollower::Chain &chain : chains.get())
    observeGradient(chain.of, chain.end, chain.loc);
  for (auto [i, value] : llvm::enumerate(body.getTerminator()->getOperands()))
    observeResult(i, value);
  states = nullptr;
  return std::exchange(observed, {});
}

//===- VerifyMemory.cpp - Do reads find what was written? -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs each planned program over addresses. Every byte of the arena holds the
// contents that were written there last; an op must find those of the values
// that it reads, and must leave alone what somebody reads later. What an op
// does to memory is said here once more, from its schema and description, and
// shares nothing with the analysis that the planner goes by (Liveness).
//
// Both memories of a rank are one range of addresses here, the host's behind
// the device's.
//
// Time is the position of an op. A transfer reads and writes at any moment from
// its start to its wait, so its operands are read at the wait, too, and its
// results are there from the start on. The program's end copies new values of
// states to their places one after the other; then the run reads the outputs.
//
//===----------------------------------------------------------------------===//

#include "ir/aten/Matchers.h"
#include "passes/Passes.h"
#include "passes/analysis/Entries.h"
#include "passes/analysis/Memories.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/Views.h"
#include "passes/plan/ByteMap.h"
#include "passes/plan/MemoryUse.h"

#include <limits>

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_VERIFYMEMORY
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

constexpr unsigned kNone = ByteMap::kNothing;
constexpr int64_t kForever = std::numeric_limits<int64_t>::max();

int64_t bytesOf(Type type) {
  return aten::getStorageBytes(cast<RankedTensorType>(type));
}

/// What was once written to a range of bytes, as one.
struct Contents {
  int64_t begin, bytes;
  Location location;     ///< of what wrote them, or of the state or input
  RankedTensorType type; ///< of the value that fills them; null: padding rows
  int64_t lastRead = -1;

  int64_t getEnd() const { return begin + bytes; }
};

/// One program. First all contents are made, in the order in which they are
/// written, with their addresses and last reads; then the program runs.
class Interpreter {
public:
  Interpreter(func::FuncOp program, const StateTable &states,
              const MemoryUse &use, const DenseSet<Operation *> &spare)
      : program(program), states(states), memories(program), use(use),
        spare(spare) {}

  LogicalResult verify() {
    if (failed(makeArguments()))
      return failure();
    for (Operation &op : program.getBody().front()) {
      if (failed(isa<func::ReturnOp>(op) ? prepareReturn(op) : prepare(op)))
        return failure();
      ++now;
    }
    now = 0;
    for (Operation &op : program.getBody().front()) {
      if (failed(isa<func::ReturnOp>(op) ? runReturn(op) : run(op)))
        return failure();
      ++now;
    }
    return success();
  }

private:
  /// Where an op writes what, and the operand in whose place it does so.
  struct Write {
    unsigned contents;
    Value inPlaceOf;
  };

  //===--------------------------------------------------------------------===//
  // Contents
  //===--------------------------------------------------------------------===//

  unsigned make(int64_t begin, int64_t bytes, Location location,
                RankedTensorType type) {
    contents.push_back({begin, bytes, location, type});
    return contents.size() - 1;
  }

  /// kNone for constants and for what is no tensor.
  unsigned getContents(Value value) const {
    auto it = contentsOf.find(value);
    return it == contentsOf.end() ? kNone : it->second;
  }

  void noteRead(Value value, int64_t time) {
    if (unsigned id = getContents(value); id != kNone)
      contents[id].lastRead = std::max(contents[id].lastRead, time);
  }

  /// Whether the elements of `value` are all of its contents, in their order.
  bool isWhole(Value value) const {
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

  LogicalResult makeArguments() {
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
      start(id);
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
      start(id);
    }
    return success();
  }

  /// Contents that are there before the program begins.
  void start(unsigned id) {
    memory.write(contents[id].begin, contents[id].getEnd(), id);
  }

  //===--------------------------------------------------------------------===//
  // What ops do to memory
  //===--------------------------------------------------------------------===//

  /// An op that only gives other names to its operands reads no element.
  static bool isRead(Operation &op) {
    return !isa<FreeOp>(op) &&
           (op.getNumResults() == 0 ||
            !llvm::all_of(op.getResults(), [](OpResult result) {
              return getViewSource(result) != nullptr;
            }));
  }

  LogicalResult prepare(Operation &op) {
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
          make(getCheckedAddress(at[used++], memories.get(result)),
               bytesOf(type), result.getLoc(), type);
      written.push_back({contentsOf[result], Value()});
    }
    if (used != at.size())
      return op.emitOpError("has ")
             << used << " tensors of its own and " << at.size() << " addresses";
    return findUpdates(op, written);
  }

  /// The operands in whose places an op computes.
  LogicalResult findUpdates(Operation &op, SmallVector<Write> &written) {
    if (auto accumulate = dyn_cast<AccumulateOp>(op)) {
      // Where the sum or the summand lies.
      Value into = accumulate.getInto();
      unsigned id = getContents(into);
      bool grows = id != kNone && contents[id].begin ==
                                      contents[written.front().contents].begin;
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

  LogicalResult setUpdate(Operation &op, Write &write, Value operand) {
    unsigned id = getContents(operand);
    const Contents &own = contents[write.contents];
    // What comes of partial sums of grains may lie where the first of them did.
    auto sum = dyn_cast<AccumulateOp>(op);
    int64_t bytes = bytesOf(operand.getType());
    bool fits =
        bytes == own.bytes || (sum && sum.getTree() && bytes > own.bytes);
    if (id == kNone || contents[id].begin != own.begin || !isWhole(operand) ||
        !fits)
      return op.emitOpError("updates an operand in place; its result lies at ")
             << getPlainAddress(own.begin) << ", and the operand "
             << (id == kNone
                     ? "is a constant"
                     : "at " +
                           std::to_string(getPlainAddress(contents[id].begin)));
    write.inPlaceOf = operand;
    return success();
  }

  /// Contents that a transfer makes, with the padding rows behind them.
  LogicalResult prepareStart(StartOpInterface op, ArrayRef<int64_t> at) {
    ArrayRef<Type> types = op.getPromised();
    if (at.size() != types.size())
      return op->emitOpError("has ")
             << types.size() << " tensors of its own and " << at.size()
             << " addresses";
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

  LogicalResult prepareWait(WaitOp wait) {
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

  /// Bytes of a reduced operand with its padding rows.
  static int64_t getPaddedBytes(Type type, int64_t dim, GroupAttr group) {
    auto tensor = cast<RankedTensorType>(type);
    return bytesOf(getShardType(tensor, dim, group)) * group.getSize();
  }

  void preparePadding(ZeroPaddingOp op) {
    Value tensor = op.getTensor();
    unsigned of = getContents(tensor);
    if (of == kNone)
      return;
    int64_t begin = contents[of].getEnd();
    int64_t bytes =
        getPaddedBytes(tensor.getType(), op.getDim(), op.getGroup()) -
        contents[of].bytes;
    unsigned id = make(begin, bytes, op.getLoc(), RankedTensorType());
    paddings[of] = id;
    writes[op].push_back({id, Value()});
  }

  /// Whether a state has memory, which holds its value when all is done.
  bool isKept(StateOp state) const {
    return held.contains(state) && !spare.contains(state);
  }

  /// The state whose new value a result of the program is, or null.
  StateOp getResultState(unsigned number) {
    return states.lookup(
        program.getResultAttrOfType<FlatSymbolRefAttr>(number, kStateAttr));
  }

  LogicalResult prepareReturn(Operation &op) {
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

  //===--------------------------------------------------------------------===//
  // The run
  //===--------------------------------------------------------------------===//

  LogicalResult read(Operation &op, unsigned id) {
    const Contents &own = contents[id];
    return success(memory.visit(
        own.begin, own.getEnd(), [&](int64_t begin, int64_t, unsigned found) {
          if (found == id)
            return true;
          InFlightDiagnostic diagnostic =
              op.emitOpError("reads a value that was overwritten, at ")
              << getPlainAddress(begin);
          diagnostic.attachNote(own.location) << "the value is this one";
          if (found != kNone)
            diagnostic.attachNote(contents[found].location)
                << "overwritten here";
          return false;
        }));
  }

  LogicalResult read(Operation &op, Value value) {
    unsigned id = getContents(value);
    return id == kNone ? success() : read(op, id);
  }

  /// Whether `op` may write its result over `id`, whose last reader it is.
  bool isElementwise(Operation &op, unsigned id, const Contents &own) const {
    const aten::Schema *schema = aten::lookupSchema(&op);
    // A product that is added to a matrix, which is no factor of it.
    if (aten::isAddedProduct(&op))
      return contents[id].begin == own.begin &&
             getContents(op.getOperand(0)) == id &&
             op.getOperand(0).getType() == own.type &&
             isWhole(op.getOperand(0)) &&
             llvm::none_of(op.getOperands().drop_front(), [&](Value factor) {
               return getContents(factor) == id;
             });
    return schema && schema->is(aten::Flags::Pointwise) &&
           contents[id].begin == own.begin &&
           llvm::all_of(op.getOperands(), [&](Value operand) {
             return getContents(operand) != id ||
                    (operand.getType() == own.type && isWhole(operand));
           });
  }

  LogicalResult write(Operation &op, const Write &write, int64_t time) {
    const Contents &own = contents[write.contents];
    int64_t begin = getPlainAddress(own.begin);
    int64_t arena = use.getPeak(own.begin >= kHostBegin ? MemorySpace::Host
                                                        : MemorySpace::Device);
    if (begin < 0 || begin + own.bytes > arena)
      return op.emitOpError("writes from ")
             << begin << " to " << begin + own.bytes
             << ", outside of the arena of " << arena;
    unsigned updated = getContents(write.inPlaceOf);
    auto made = parts.find(&op);
    bool isFree = memory.visit(
        own.begin, own.getEnd(), [&](int64_t begin, int64_t, unsigned found) {
          if (found == kNone || contents[found].lastRead < time ||
              (write.inPlaceOf && found == updated) ||
              (made != parts.end() && made->second.contains(found)) ||
              (contents[found].lastRead == time &&
               isElementwise(op, found, own)))
            return true;
          InFlightDiagnostic diagnostic =
              op.emitOpError("writes over memory that is still in use, at ")
              << getPlainAddress(begin);
          diagnostic.attachNote(contents[found].location)
              << "by this, at " << getPlainAddress(contents[found].begin);
          return false;
        });
    if (!isFree)
      return failure();
    memory.write(own.begin, own.getEnd(), write.contents);
    return success();
  }

  LogicalResult run(Operation &op) {
    if (auto free = dyn_cast<FreeOp>(op)) {
      for (Value tensor : free.getTensors())
        forget(getContents(tensor));
      return success();
    }
    if (const aten::Schema *schema = aten::lookupSchema(&op);
        schema && schema->writes())
      return op.emitOpError("writes its operands; expected a program in which "
                            "no operator does");
    if (isRead(op))
      for (Value operand : op.getOperands())
        if (failed(read(op, operand)))
          return failure();
    if (auto start = asStart(&op, Collective::ReduceScatter))
      if (failed(readPadding(start)))
        return failure();
    for (const Write &each : writes[&op])
      if (failed(write(op, each, now)))
        return failure();
    return success();
  }

  LogicalResult readPadding(StartOp op) {
    for (auto [input, dim] : llvm::zip_equal(op.getInputs(), *op.getDims())) {
      unsigned id = getContents(input);
      int64_t bytes = getPaddedBytes(input.getType(), dim, op.getGroup()) -
                      bytesOf(input.getType());
      if (bytes == 0)
        continue;
      auto it = paddings.find(id);
      if (it == paddings.end() || contents[it->second].bytes != bytes)
        return op.emitOpError("reduces ")
               << bytes << " bytes of padding that nothing zeroed";
      if (failed(read(*op, it->second)))
        return failure();
    }
    return success();
  }

  void forget(unsigned id) {
    if (id == kNone)
      return;
    SmallVector<std::pair<int64_t, int64_t>> ranges;
    memory.visit(contents[id].begin, contents[id].getEnd(),
                 [&](int64_t begin, int64_t end, unsigned found) {
                   if (found == id)
                     ranges.push_back({begin, end});
                   return true;
                 });
    for (auto [begin, end] : ranges)
      memory.write(begin, end, kNone);
  }

  LogicalResult runReturn(Operation &op) {
    for (const Copy &copy : copies)
      if (failed(read(op, copy.from)) ||
          failed(write(op, {copy.contents, Value()}, copy.time)))
        return failure();
    for (OpOperand &operand : op.getOpOperands())
      if (!getResultState(operand.getOperandNumber()) &&
          failed(read(op, operand.get())))
        return failure();
    for (StateOp state : states.getStates())
      if (isKept(state) && failed(read(op, held.at(state))))
        return failure();
    for (BlockArgument argument : program.getArguments())
      if (!states.lookup(program, argument.getArgNumber()) &&
          failed(read(op, argument)))
        return failure();
    return success();
  }

  /// A new value of a state that was made elsewhere.
  struct Copy {
    Value from;
    unsigned contents;
    int64_t time = 0;
  };

  func::FuncOp program;
  const StateTable &states;
  Memories memories;
  const MemoryUse &use;
  int64_t now = 0;
  SmallVector<Contents, 0> contents;
  DenseMap<Value, unsigned> contentsOf;
  DenseMap<unsigned, unsigned> paddings; ///< behind other contents
  DenseMap<Operation *, SmallVector<Write>> writes;
  DenseMap<Operation *, DenseSet<unsigned>> parts; ///< made where packed
  DenseMap<Operation *, unsigned> held; ///< by states when all is done
  DenseSet<Operation *> spare;          ///< states that may hold anything then
  SmallVector<Copy> copies;             ///< when all else is done
  ByteMap memory;
};

/// The first grain is put among the partial sums, none of which is there yet.
bool isReadInFirst(BlockArgument argument) {
  return llvm::any_of(argument.getUses(), [](OpOperand &use) {
    auto sum = dyn_cast<AccumulateOp>(use.getOwner());
    return !(sum && sum.getTree() && sum.getInto() == use.get());
  });
}

/// States that a step's first micro-batch gives a value to before anything
/// reads them: behind the last one they may hold anything.
DenseSet<Operation *> getSpareStates(ModuleOp module,
                                     const StateTable &states) {
  DenseSet<Operation *> written, read;
  for (func::FuncOp program : getPrograms(module)) {
    StepPart part = getStepPart(program);
    bool isFirst = part == StepPart::First;
    for (BlockArgument argument : program.getArguments())
      if (StateOp state = states.lookup(program, argument.getArgNumber());
          state && part != StepPart::Middle && part != StepPart::Last &&
          (!isFirst || isReadInFirst(argument)))
        read.insert(state);
    for (unsigned i = 0; isFirst && i < program.getNumResults(); ++i)
      if (StateOp state = states.lookup(
              program.getResultAttrOfType<FlatSymbolRefAttr>(i, kStateAttr)))
        written.insert(state);
  }
  for (Operation *state : read)
    written.erase(state);
  return written;
}

struct VerifyMemory : fsdp::impl::VerifyMemoryBase<VerifyMemory> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<MemoryUse> use = MemoryUse::fromAttribute(module);
    if (failed(use)) {
      module.emitError("has no '")
          << kMemoryAttr << "'; expected a program that fsdp-plan-memory "
          << "planned";
      return signalPassFailure();
    }
    StateTable states(module);
    DenseSet<Operation *> spare = getSpareStates(module, states);
    for (func::FuncOp program : getPrograms(module)) {
      bool isLast = getStepPart(program) == StepPart::Last;
      Interpreter interpreter(program, states, *use,
                              isLast ? spare : DenseSet<Operation *>());
      if (failed(interpreter.verify()))
        return signalPassFailure();
    }
  }
};

} // namespace

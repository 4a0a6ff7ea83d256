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
#include "passes/analysis/Programs.h"
#include "passes/analysis/States.h"
#include "passes/plan/MemoryUse.h"
#include "passes/plan/PlannedContents.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_VERIFYMEMORY
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

/// One program: when all contents are made, it runs.
class Interpreter : PlannedContents {
public:
  Interpreter(func::FuncOp program, const StateTable &states,
              const MemoryUse &use, const DenseSet<Operation *> &spare)
      : PlannedContents(program, states, spare), use(use) {}

  LogicalResult verify() {
    if (failed(prepare()))
      return failure();
    for (unsigned id : initial)
      memory.write(contents[id].begin, contents[id].getEnd(), id);
    now = 0;
    for (Operation &op : program.getBody().front()) {
      if (failed(isa<func::ReturnOp>(op) ? runReturn(op) : run(op)))
        return failure();
      ++now;
    }
    return success();
  }

private:
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
    auto kernel = dyn_cast<KernelOp>(op);
    if (!kernel && !(schema && schema->is(aten::Flags::Pointwise)))
      return false;
    return contents[id].begin == own.begin &&
           llvm::all_of(op.getOpOperands(), [&](OpOperand &operand) {
             Value value = operand.get();
             return getContents(value) != id ||
                    (value.getType() == own.type && isWhole(value) &&
                     (!kernel ||
                      kernel.getInPlace()[operand.getOperandNumber()]));
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
    if (StartOp start = asCutting(&op))
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
      int64_t bytes =
          getPaddedBytes(input.getType(), dim, op.getGroup()) -
          aten::getStorageBytes(cast<RankedTensorType>(input.getType()));
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

  const MemoryUse &use;
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

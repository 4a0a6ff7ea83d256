//===- VerifyPlanned.cpp - Check a plan from the IR alone -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Liveness.h"
#include "passes/analysis/Memories.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/States.h"
#include "passes/plan/MemoryUse.h"
#include "passes/plan/Packing.h"
#include "passes/plan/TransferMemory.h"

#include <map>

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_VERIFYPLANNED
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

class ProgramVerifier {
public:
  ProgramVerifier(func::FuncOp program, const StateTable &states,
                  const MemoryUse &use)
      : program(program), states(states), liveness(program), use(use),
        addresses(liveness.getStorages().size(), kUnset) {}

  LogicalResult verify() {
    // Later checks build upon the earlier ones.
    if (failed(readArguments()))
      return failure();
    for (Operation &op : program.getBody().front())
      if (failed(readAddresses(op)))
        return failure();
    if (failed(verifyParts()) || failed(verifyBounds()) ||
        failed(verifyDisjoint()) || failed(verifyReads()) ||
        failed(verifyPadding()))
      return failure();
    return verifyTransferMemory(program, liveness, addresses);
  }

  /// End of the highest transient tensor in a memory.
  int64_t getTop(MemorySpace memory) const { return top[unsigned(memory)]; }

private:
  static constexpr int64_t kUnset = -1;

  const Storage &storage(unsigned index) const {
    return liveness.getStorages()[index];
  }

  MemorySpace memoryOf(unsigned index) const { return storage(index).memory; }

  Location locationOf(unsigned index) {
    Value value = storage(index).value;
    return value ? value.getLoc() : program.getLoc();
  }

  LogicalResult readArguments() {
    for (BlockArgument argument : program.getArguments()) {
      unsigned number = argument.getArgNumber();
      unsigned index = liveness.getStorage(argument);
      if (StateOp state = states.lookup(program, number)) {
        addresses[index] = getCheckedAddress(*state.getAt(), memoryOf(index));
        continue;
      }
      auto at = program.getArgAttrOfType<DenseI64ArrayAttr>(number, kAtAttr);
      if (!at || at.size() != 1)
        return program.emitError("argument ")
               << number << " has no address; expected '" << kAtAttr
               << "', which fsdp-plan-memory sets";
      addresses[index] = getCheckedAddress(at[0], memoryOf(index));
    }
    return success();
  }

  LogicalResult readAddresses(Operation &op) {
    SmallVector<unsigned> owned = liveness.getOwned(&op);
    auto at =
        dyn_cast_or_null<DenseI64ArrayAttr>(op.getDiscardableAttr(kAtAttr));
    size_t count = at ? at.size() : 0;
    if (count != owned.size())
      return op.emitOpError("has ")
             << owned.size() << " tensors of its own and " << count
             << " addresses";
    for (size_t i = 0; i < count; ++i) {
      int64_t address = getCheckedAddress(at[i], memoryOf(owned[i]));
      int64_t &known = addresses[owned[i]];
      if (known != kUnset && known != address)
        return op.emitOpError("updates a tensor that lies at ")
               << getPlainAddress(known) << " at another address, " << at[i];
      known = address;
    }
    return success();
  }

  /// What is packed was made where it lies in the packed tensor.
  LogicalResult verifyParts() {
    for (unsigned index = 0; index < liveness.getStorages().size(); ++index) {
      auto [whole, offset] = liveness.getPart(index);
      if (whole != Liveness::kNone &&
          addresses[index] != addresses[whole] + offset)
        return emitError(locationOf(index))
               << "lies at " << getPlainAddress(addresses[index])
               << "; expected " << getPlainAddress(addresses[whole] + offset)
               << ", " << offset
               << " bytes behind the beginning of what it is packed into";
    }
    return success();
  }

  LogicalResult verifyBounds() {
    for (auto [index, each] : llvm::enumerate(liveness.getStorages())) {
      if (each.kind == StorageKind::State || liveness.isMerged(index))
        continue;
      int64_t address = getPlainAddress(addresses[index]);
      bool isOnHost = each.memory == MemorySpace::Host;
      int64_t statesEnd = isOnHost ? use.host->states : use.states;
      int64_t arena = use.getPeak(each.memory);
      if (address < statesEnd || address + each.bytes > arena ||
          address % getAlignment(each.bytes))
        return emitError(locationOf(index))
               << "lies at " << address << " with " << each.bytes
               << " bytes; expected a multiple of " << getAlignment(each.bytes)
               << " from " << statesEnd << " on, inside of the "
               << (isOnHost ? "host's " : "") << "arena of " << arena;
      int64_t &end = top[unsigned(each.memory)];
      end = std::max(end, address + alignUp(each.bytes));
    }
    return success();
  }

  /// Sweeps over time with the living tensors ordered by address.
  LogicalResult verifyDisjoint() {
    SmallVector<unsigned> births;
    for (auto [index, each] : llvm::enumerate(liveness.getStorages()))
      if (each.kind != StorageKind::State && !liveness.isMerged(index) &&
          each.bytes != 0)
        births.push_back(index);
    SmallVector<unsigned> deaths(births);
    llvm::stable_sort(births, [&](unsigned a, unsigned b) {
      return storage(a).first < storage(b).first;
    });
    llvm::stable_sort(deaths, [&](unsigned a, unsigned b) {
      return storage(a).last < storage(b).last;
    });
    std::map<int64_t, unsigned> alive;
    auto *death = deaths.begin();
    for (unsigned index : births) {
      for (; storage(*death).last < storage(index).first; ++death)
        alive.erase(addresses[*death]);
      int64_t begin = addresses[index], end = begin + storage(index).bytes;
      auto next = alive.lower_bound(begin);
      if (next != alive.end() && next->first < end)
        return refuseOverlap(index, next->second);
      if (next != alive.begin()) {
        unsigned previous = std::prev(next)->second;
        if (addresses[previous] + storage(previous).bytes > begin)
          return refuseOverlap(index, previous);
      }
      alive.emplace(begin, index);
    }
    return success();
  }

  LogicalResult refuseOverlap(unsigned index, unsigned other) {
    InFlightDiagnostic diagnostic = emitError(locationOf(index))
                                    << "lies in memory that is still in use, "
                                       "at "
                                    << getPlainAddress(addresses[index]);
    diagnostic.attachNote(locationOf(other))
        << "by this tensor, at " << getPlainAddress(addresses[other]);
    return diagnostic;
  }

  LogicalResult verifyReads() const {
    for (const StaleRead &read : liveness.getStaleReads()) {
      InFlightDiagnostic diagnostic =
          read.reader->emitOpError("reads a value that was overwritten");
      diagnostic.attachNote(read.writer->getLoc()) << "overwritten here";
      return diagnostic;
    }
    return success();
  }

  LogicalResult verifyPadding() {
    DenseSet<unsigned> padded;
    for (Operation &op : program.getBody().front()) {
      if (auto padding = dyn_cast<ZeroPaddingOp>(op))
        padded.insert(liveness.getStorage(padding.getTensor()));
      StartOp start = asCutting(&op);
      if (!start)
        continue;
      for (auto [input, dim] :
           llvm::zip_equal(start.getInputs(), *start.getDims())) {
        int64_t rows = cast<RankedTensorType>(input.getType()).getDimSize(dim);
        int64_t ranks = start.getGroup().getSize();
        if (getShardRows(rows, ranks) * ranks != rows &&
            !padded.contains(liveness.getStorage(input)))
          return start.emitOpError("moves ")
                 << getShardRows(rows, ranks) * ranks - rows
                 << " rows of padding that were not zeroed; expected "
                    "'fsdp.zero_padding' before it";
      }
    }
    return success();
  }

  func::FuncOp program;
  const StateTable &states;
  Liveness liveness;
  const MemoryUse &use;
  int64_t top[2] = {0, 0}; ///< by memory
  SmallVector<int64_t> addresses;
};

struct VerifyPlanned : fsdp::impl::VerifyPlannedBase<VerifyPlanned> {
  void runOnOperation() override {
    if (failed(verify(getOperation())))
      signalPassFailure();
  }

  LogicalResult verify(ModuleOp module) {
    FailureOr<MemoryUse> use = MemoryUse::fromAttribute(module);
    if (failed(use))
      return module.emitError("has no '")
             << kMemoryAttr
             << "', or one with entries missing; expected what "
                "fsdp-plan-memory sets";
    StateTable states(module);
    int64_t tops[2];
    for (auto memory : {MemorySpace::Device, MemorySpace::Host}) {
      int64_t statesEnd = 0;
      if (failed(verifyStates(states, memory, statesEnd)))
        return failure();
      tops[unsigned(memory)] = statesEnd;
      bool isHost = memory == MemorySpace::Host;
      int64_t stated =
          isHost ? (use->host ? use->host->states : 0) : use->states;
      if (stated != statesEnd)
        return module.emitError("states ")
               << stated << " bytes of " << (isHost ? "the host's " : "")
               << "states; they end at " << statesEnd;
    }
    for (func::FuncOp program : getPrograms(module)) {
      if (failed(verifyMemories(program)))
        return failure();
      if (!use->host && Memories(program).usesHost())
        return program.emitError("has tensors on the host, of which '")
               << kMemoryAttr << "' says nothing";
      ProgramVerifier verifier(program, states, *use);
      if (failed(verifier.verify()))
        return failure();
      for (auto memory : {MemorySpace::Device, MemorySpace::Host})
        tops[unsigned(memory)] =
            std::max(tops[unsigned(memory)], verifier.getTop(memory));
    }
    for (auto memory : {MemorySpace::Device, MemorySpace::Host})
      if (int64_t top = tops[unsigned(memory)]; use->getPeak(memory) != top)
        return module.emitError("states ")
               << (memory == MemorySpace::Host ? "a host's arena of "
                                               : "an arena of ")
               << use->getPeak(memory) << " bytes; its tensors end at " << top;
    return success();
  }

  static LogicalResult verifyStates(const StateTable &table, MemorySpace memory,
                                    int64_t &end) {
    SmallVector<StateOp> states(table.getStates());
    llvm::erase_if(states, [&](StateOp state) {
      return state.getPart() ||
             state.isOnHost() != (memory == MemorySpace::Host);
    });
    for (StateOp state : states) {
      int64_t alignment =
          getAlignment(aten::getStorageBytes(state.getLocalType()));
      if (!state.getAt() || *state.getAt() % alignment)
        return state.emitOpError("has no address that is a multiple of ")
               << alignment;
    }
    llvm::stable_sort(
        states, [](StateOp a, StateOp b) { return *a.getAt() < *b.getAt(); });
    StateOp previous;
    for (StateOp state : states) {
      int64_t bytes = aten::getStorageBytes(state.getLocalType());
      if (bytes == 0)
        continue;
      int64_t at = *state.getAt();
      if (at < end) {
        InFlightDiagnostic diagnostic =
            state.emitOpError("overlaps another state");
        diagnostic.attachNote(previous.getLoc()) << "this one";
        return diagnostic;
      }
      end = at + alignUp(bytes);
      previous = state;
    }
    end = roundUp(end, kAlignment);
    return success();
  }
};

} // namespace

//===- TransferMemory.cpp - Is what a transfer moves left alone? ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A start is ordered behind all work issued before it, a wait in front of all
// work issued after it. So only what stands between them can run beside the
// transfer, and it is looked at by bytes, under whatever name they are touched.
//
//===----------------------------------------------------------------------===//

#include "passes/plan/TransferMemory.h"

#include "passes/analysis/Views.h"
#include "passes/plan/ByteMap.h"
#include "passes/plan/MemoryUse.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace fsdp;

namespace {

class TransferVerifier {
public:
  TransferVerifier(const Liveness &liveness, ArrayRef<int64_t> addresses)
      : liveness(liveness), addresses(addresses) {}

  LogicalResult verify(Block &body) {
    for (Operation &op : body)
      if (failed(visit(op)))
        return failure();
    for (auto &[start, flight] : flights)
      return start->emitOpError(
          "is never waited for; expected one 'fsdp.wait' for its future");
    return success();
  }

private:
  /// What a transfer in flight reads and writes.
  struct Flight {
    ByteMap reads, writes;
  };

  LogicalResult visit(Operation &op) {
    if (auto wait = dyn_cast<WaitOp>(op)) {
      flights.erase(wait.getFuture().getDefiningOp());
      return success();
    }
    if (touchesNothing(op))
      return success();
    bool isTransfer = isa<StartOpInterface>(op);
    SmallVector<unsigned> reads, writes;
    for (Value operand : op.getOperands())
      append(reads, operand);
    if (isTransfer)
      llvm::append_range(writes, liveness.getPromised(&op));
    else if (auto padding = dyn_cast<ZeroPaddingOp>(op))
      append(writes, padding.getTensor());
    for (OpResult result : op.getResults())
      append(writes, result);

    for (auto &[start, flight] : flights) {
      for (unsigned storage : reads)
        if (overlaps(flight.writes, storage))
          return refuse(op, "reads", storage, start, "writes");
      for (unsigned storage : writes) {
        if (overlaps(flight.writes, storage))
          return refuse(op, "writes", storage, start, "writes");
        if (overlaps(flight.reads, storage))
          return refuse(op, "writes", storage, start, "reads");
      }
    }
    if (isTransfer) {
      Flight &flight = flights[&op];
      fill(flight.reads, reads);
      fill(flight.writes, writes);
    }
    return success();
  }

  /// Whether `op` leaves nothing to do in a step.
  static bool touchesNothing(Operation &op) {
    if (isa<FreeOp, ConstantOp>(op))
      return true;
    return op.getNumResults() != 0 &&
           llvm::all_of(op.getResults(), [](OpResult result) {
             return getViewSource(result) != nullptr;
           });
  }

  void append(SmallVector<unsigned> &to, Value value) const {
    if (unsigned storage = liveness.getStorage(value);
        storage != Liveness::kNone)
      to.push_back(storage);
  }

  int64_t endOf(unsigned storage) const {
    return addresses[storage] + liveness.getStorages()[storage].bytes;
  }
  bool overlaps(const ByteMap &bytes, unsigned storage) const {
    return !bytes.visit(addresses[storage], endOf(storage),
                        [](int64_t, int64_t, unsigned found) {
                          return found == ByteMap::kNothing;
                        });
  }
  void fill(ByteMap &bytes, ArrayRef<unsigned> storages) const {
    for (unsigned storage : storages)
      bytes.write(addresses[storage], endOf(storage), storage);
  }

  LogicalResult refuse(Operation &op, StringRef does, unsigned storage,
                       Operation *start, StringRef transfer) const {
    InFlightDiagnostic diagnostic = op.emitOpError()
                                    << does << " memory at "
                                    << getPlainAddress(addresses[storage])
                                    << " that a transfer " << transfer
                                    << "; expected its 'fsdp.wait' before";
    diagnostic.attachNote(start->getLoc()) << "the transfer starts here";
    return diagnostic;
  }

  const Liveness &liveness;
  ArrayRef<int64_t> addresses;
  /// In the order of their starts.
  llvm::MapVector<Operation *, Flight> flights;
};

} // namespace

LogicalResult fsdp::verifyTransferMemory(func::FuncOp program,
                                         const Liveness &liveness,
                                         ArrayRef<int64_t> addresses) {
  return TransferVerifier(liveness, addresses)
      .verify(program.getBody().front());
}

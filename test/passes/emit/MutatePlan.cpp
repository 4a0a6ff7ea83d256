//===- MutatePlan.cpp - Are wrong addresses refused? ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//   fsdp-mutate-plan PLANNED.mlir
//
// Checks that fsdp-verify-memory takes the plan as it is, and refuses it with
// one address changed such that memory is certainly wrong:
//
// * over: an op writes where an earlier op's result lies that a later one
// reads;
// * beside: an update in place is not where its operand is;
// * out: a tensor ends behind the arena.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/Views.h"
#include "passes/plan/MemoryUse.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>

using namespace mlir;
using namespace fsdp;

namespace {

constexpr size_t kTrials = 3000; // of each kind

/// One address of an op.
struct Slot {
  Operation *op;
  unsigned number;
};

/// Another address for one, and why that is wrong.
struct Mutation {
  const char *kind;
  Slot slot;
  int64_t at;
};

DenseI64ArrayAttr getAddresses(Operation *op) {
  return dyn_cast_or_null<DenseI64ArrayAttr>(op->getDiscardableAttr(kAtAttr));
}

int64_t bytesOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? aten::getStorageBytes(tensor) : 0;
}

bool updatesInPlace(Operation *op) {
  auto start = dyn_cast<StartOpInterface>(op);
  return isa<UpdateOp>(op) || (start && start.isInPlace());
}

class Mutator {
public:
  Mutator(ModuleOp module, int64_t arena)
      : module(module), arena(arena), manager(module.getContext()) {
    manager.addPass(createVerifyMemory());
  }

  bool isRefused() { return failed(manager.run(module)); }

  bool isRefused(const Mutation &mutation) {
    Operation *op = mutation.slot.op;
    DenseI64ArrayAttr known = getAddresses(op);
    SmallVector<int64_t> at(known.asArrayRef());
    at[mutation.slot.number] = mutation.at;
    op->setDiscardableAttr(kAtAttr,
                           DenseI64ArrayAttr::get(op->getContext(), at));
    bool refused = isRefused();
    op->setDiscardableAttr(kAtAttr, known);
    return refused;
  }

  std::vector<Mutation> collect(func::FuncOp program) {
    std::vector<Mutation> all;
    SmallVector<Operation *> ops;
    for (Operation &op : program.getBody().front())
      ops.push_back(&op);
    DenseMap<Operation *, size_t> positions;
    for (auto [position, op] : llvm::enumerate(ops))
      positions[op] = position;
    for (auto [made, op] : llvm::enumerate(ops)) {
      DenseI64ArrayAttr at = getAddresses(op);
      if (!at)
        continue;
      for (unsigned i = 0; i < at.size(); ++i) {
        all.push_back({"out", {op, i}, arena});
        if (updatesInPlace(op))
          all.push_back({"beside", {op, i}, at[i] + 16});
      }
      // A result that is no view, and the last op that reads it by its name.
      if (op->getNumResults() != 1 || at.size() != 1 ||
          bytesOf(op->getResult(0).getType()) == 0 || isa<StartOpInterface>(op))
        continue;
      size_t last = made;
      for (Operation *user : op->getUsers())
        if (!isa<FreeOp, WaitOp>(user) &&
            !llvm::any_of(user->getResults(), [](OpResult result) {
              return getViewSource(result) != nullptr;
            }))
          last = std::max(last, positions[user]);
      for (size_t position = made + 1; position < last; ++position)
        addWrites(ops[position], at[0], all);
    }
    return all;
  }

private:
  /// That `writer` writes at `at`.
  static void addWrites(Operation *writer, int64_t at,
                        std::vector<Mutation> &all) {
    DenseI64ArrayAttr own = getAddresses(writer);
    if (!own || (writer->getNumResults() == 1 &&
                 !isa<FutureType>(writer->getResult(0).getType()) &&
                 bytesOf(writer->getResult(0).getType()) == 0))
      return;
    if (writer->getNumResults() != 1)
      return;
    for (unsigned i = 0; i < own.size(); ++i)
      if (own[i] != at)
        all.push_back({"over", {writer, i}, at});
  }

  ModuleOp module;
  int64_t arena;
  PassManager manager;
};

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    llvm::errs() << "expected one planned program\n";
    return 2;
  }
  MLIRContext context;
  context.loadDialect<func::FuncDialect, FsdpDialect, aten::AtenDialect>();
  context.disableMultithreading();
  OwningOpRef<ModuleOp> module =
      parseSourceFile<ModuleOp>(argv[1], ParserConfig(&context));
  FailureOr<MemoryUse> use;
  if (!module || failed(use = MemoryUse::fromAttribute(*module))) {
    llvm::errs() << argv[1] << " is no planned program\n";
    return 2;
  }
  Mutator mutator(*module, use->peak);
  auto begin = std::chrono::steady_clock::now();
  if (mutator.isRefused()) {
    llvm::errs() << "the plan itself is refused\n";
    return 1;
  }
  std::chrono::duration<double, std::milli> taken =
      std::chrono::steady_clock::now() - begin;
  size_t ops = 0;
  llvm::StringMap<std::vector<Mutation>> kinds;
  for (func::FuncOp program : getPrograms(*module)) {
    ops += program.getBody().front().getOperations().size();
    for (const Mutation &mutation : mutator.collect(program))
      kinds[mutation.kind].push_back(mutation);
  }
  // What is refused says why; nobody reads it.
  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) {});
  int wrong = 0;
  for (const auto &kind : kinds) {
    const std::vector<Mutation> &all = kind.getValue();
    size_t step = std::max<size_t>(all.size() / kTrials, 1), tried = 0;
    for (size_t i = 0; i < all.size(); i += step, ++tried)
      if (!mutator.isRefused(all[i])) {
        ++wrong;
        llvm::errs() << "not refused, " << kind.getKey() << ": address "
                     << all[i].slot.number << " is " << all[i].at << " of\n  "
                     << *all[i].slot.op << '\n';
      }
    llvm::outs() << kind.getKey() << ": " << tried << " of " << all.size()
                 << " tried\n";
  }
  llvm::outs() << ops << " ops, verified in "
               << llvm::format("%.2f", taken.count()) << " ms\n";
  return wrong != 0;
}

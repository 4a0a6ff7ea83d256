//===- Decisions.cpp - What passes say of their decisions -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/Decisions.h"

#include "ir/aten/Aten.h"
#include "ir/fsdp/Fsdp.h"
#include "passes/analysis/ForwardSlice.h"
#include "passes/analysis/ModulePaths.h"
#include "passes/analysis/SourcePlace.h"
#include "passes/analysis/Views.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace fsdp;

bool fsdp::wantsRemarks(Operation *op) {
  return op->getContext()->getRemarkEngine() != nullptr;
}

remark::RemarkOpts fsdp::nameDecision(StringRef category, StringRef name,
                                      func::FuncOp program) {
  return remark::RemarkOpts::name(name).category(category).function(
      program.getSymName());
}

Location fsdp::getModuleLocation(StringRef path, Operation *inside) {
  SourcePlace place(inside->getLoc());
  Location line =
      place.line ? Location(place.line) : UnknownLoc::get(inside->getContext());
  return NameLoc::get(StringAttr::get(inside->getContext(), path), line);
}

namespace {
/// Whether an op behind `border` reads `value` or a view of it.
bool isReadBehind(Value value,
                  const llvm::DenseMap<Operation *, unsigned> &positions,
                  unsigned border) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    if (!user->hasTrait<OpTrait::IsTerminator>() && positions.at(user) > border)
      return true;
    return llvm::any_of(user->getResults(), [&](OpResult result) {
      return getViewSource(result) == value &&
             isReadBehind(result, positions, border);
    });
  });
}
} // namespace

std::vector<KeptActivations>
fsdp::listKeptActivations(func::FuncOp program, ArrayRef<std::string> modules) {
  Operation *last = ForwardSlice(program).getLast();
  if (!last)
    return {};
  std::vector<KeptActivations> all;
  llvm::StringMap<size_t> places;
  for (const std::string &module : modules) {
    places[module] = all.size();
    all.push_back({module});
  }
  llvm::DenseMap<Operation *, unsigned> positions;
  for (auto [i, op] : llvm::enumerate(program.getBody().front()))
    positions[&op] = i;
  unsigned border = positions.at(last);
  for (Operation &op : program.getBody().front()) {
    if (positions.at(&op) > border)
      break;
    StringRef module = SourcePlace(op.getLoc()).module;
    if (module.empty() || op.getName().getDialectNamespace() != "aten")
      continue;
    std::optional<StringRef> path =
        findAround(module, [&](StringRef at) { return places.contains(at); });
    if (!path)
      continue;
    KeptActivations &kept = all[places[*path]];
    if (!kept.first)
      kept.first = &op;
    for (OpResult result : op.getResults()) {
      auto type = dyn_cast<RankedTensorType>(result.getType());
      if (!type || getViewSource(result) ||
          !isReadBehind(result, positions, border))
        continue;
      kept.bytes += aten::getStorageBytes(type);
      ++kept.tensors;
    }
  }
  std::erase_if(all, [](const KeptActivations &kept) { return !kept.first; });
  return all;
}

std::vector<std::string> fsdp::listBucketNames(ModuleOp module) {
  llvm::SetVector<StringRef> names;
  for (StateOp state : module.getOps<StateOp>())
    if (isParameter(state) && state.getBucket())
      names.insert(*state.getBucket());
  return {names.begin(), names.end()};
}

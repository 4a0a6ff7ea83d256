//===- Groups.cpp - Operators that can run as one kernel ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/kernels/Groups.h"

#include "ir/aten/Aten.h"
#include "ir/aten/Matchers.h"
#include "passes/analysis/LiveBytes.h"
#include "passes/analysis/Views.h"
#include "passes/kernels/Disturbed.h"
#include "passes/kernels/Program.h"
#include "passes/kernels/Updates.h"

using namespace mlir;
using namespace fsdp;

SmallVector<Operation *> KernelGroup::body() const {
  SmallVector<Operation *> body(ops);
  llvm::append_range(body, views);
  llvm::sort(body,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return body;
}

/// Elements from which on it counts that a tensor is read once.
static constexpr int64_t kWorthReading = 1024;
/// Ops between those that are one kernel for what they read alone.
static constexpr int64_t kNear = 32;

//===----------------------------------------------------------------------===//
// What is between operators, and around them
//===----------------------------------------------------------------------===//

/// The op that makes what `value` is a view of, and the views on the way, the
/// nearest to `value` first; null for an argument.
static Operation *findMaker(Value value, SmallVectorImpl<Operation *> &views) {
  while (auto result = dyn_cast<OpResult>(value)) {
    Value source = getViewSource(result);
    if (!source)
      return result.getOwner();
    views.push_back(result.getOwner());
    value = source;
  }
  return nullptr;
}

/// The views between the operators of `group`; fails if there is one that
/// kernels do not see through.
static LogicalResult findViews(KernelGroup &group) {
  for (Operation *op : group.ops)
    for (Value operand : op->getOperands()) {
      SmallVector<Operation *> views;
      Operation *maker = findMaker(operand, views);
      if (!maker || !llvm::is_contained(group.ops, maker))
        continue;
      for (Operation *view : views) {
        if (!isKernelView(view))
          return failure();
        if (!llvm::is_contained(group.views, view))
          group.views.push_back(view);
      }
    }
  return success();
}

int64_t KernelGroups::placeOf(Operation *op) const {
  auto it = groupOf.find(op);
  return at(it == groupOf.end() ? op : it->second->place);
}

/// Who reads `value`, or views of it, beside the operators of `group`, as they
/// stand by now.
KernelGroups::Readers
KernelGroups::findReaders(Value value, const KernelGroup &group) const {
  Readers readers = Readers::None;
  for (Operation *user : value.getUsers()) {
    if (llvm::is_contained(group.ops, user))
      continue;
    Readers found = Readers::None;
    if (isView(user))
      found = findReaders(user->getResult(0), group);
    else
      found =
          placeOf(user) < at(group.place) ? Readers::Earlier : Readers::Later;
    readers = std::max(readers, found);
  }
  return readers;
}

/// What others read of `group`; fails if somebody does before it stands there.
LogicalResult KernelGroups::findResults(KernelGroup &group) const {
  for (Operation *op : group.ops)
    for (OpResult result : op->getResults()) {
      if (!isa<RankedTensorType>(result.getType()))
        continue;
      Readers readers = findReaders(result, group);
      if (readers == Readers::Earlier)
        return failure();
      if (readers == Readers::Later)
        group.results.push_back(result);
    }
  return success();
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

void KernelGroups::noteEvents(Operation &op) {
  for (Value value : listDisturbed(&op))
    if (unsigned storage = liveness.getStorage(value);
        storage != Liveness::kNone)
      events[storage].push_back(at(&op));
}

/// Whether what the operators read is there where they are to stand, and as it
/// is where they stand now.
bool KernelGroups::isUndisturbed(const KernelGroup &group) const {
  int64_t place = at(group.place);
  for (Operation *op : group.ops) {
    if (auto update = dyn_cast<UpdateOp>(op);
        update && llvm::any_of(listWritten(update), [&](Value value) {
          return isReadBefore(value, op, place);
        }))
      return false;
    for (Value operand : op->getOperands()) {
      Operation *made = operand.getDefiningOp();
      bool isInside = llvm::is_contained(group.ops, made) ||
                      llvm::is_contained(group.views, made);
      if (!isInside && made &&
          (at(made) > place || isMadeBehind(operand, place)))
        return false;
      unsigned storage = liveness.getStorage(operand);
      if (storage == Liveness::kNone)
        continue; // a constant
      auto it = events.find(storage);
      if (it != events.end() && llvm::any_of(it->second, [&](int64_t event) {
            return event > at(op) && event < place;
          }))
        return false;
    }
  }
  return true;
}

/// Whether `value`, or what it is a view of, is made behind `place`.
bool KernelGroups::isMadeBehind(Value value, int64_t place) const {
  SmallVector<Operation *> views;
  Operation *maker = findMaker(value, views);
  return maker && placeOf(maker) > place;
}

/// Whether `value`, which `op` writes at `place` instead, is read between the
/// two.
bool KernelGroups::isReadBefore(Value value, Operation *op,
                                int64_t place) const {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    if (isView(user) && isReadBefore(user->getResult(0), op, place))
      return true;
    return user != op && placeOf(user) > place && placeOf(user) < at(op);
  });
}

/// Of `value` and its views, by others than the group; -1: there is none.
int64_t KernelGroups::lastReader(Value value, const KernelGroup &group) const {
  int64_t last = -1;
  for (Operation *user : value.getUsers()) {
    if (llvm::is_contained(group.ops, user))
      continue;
    last = std::max(last, placeOf(user));
    if (isView(user))
      last = std::max(last, lastReader(user->getResult(0), group));
  }
  return last;
}

SmallVector<KernelGroups::Change>
KernelGroups::getChanges(const KernelGroup &group) const {
  SmallVector<Change> changes;
  auto add = [&](int64_t begin, int64_t end, int64_t bytes) {
    if (begin <= end)
      changes.push_back({begin, end, bytes});
  };
  int64_t place = at(group.place);
  DenseSet<unsigned> known;
  auto find = [&](Value value) -> const Storage * {
    unsigned index = liveness.getStorage(value);
    if (index == Liveness::kNone || !known.insert(index).second)
      return nullptr;
    const Storage &storage = liveness.getStorages()[index];
    bool isTransient = storage.kind != StorageKind::State &&
                       storage.kind != StorageKind::Input &&
                       storage.memory == MemorySpace::Device;
    return isTransient && !liveness.isMerged(index) ? &storage : nullptr;
  };
  for (Operation *op : group.ops)
    for (Value result : op->getResults())
      if (const Storage *storage = find(result);
          storage && storage->first == at(op)) {
        bool isKept = llvm::is_contained(group.results, result);
        add(at(op), isKept ? place - 1 : storage->last, -storage->bytes);
        if (isKept)
          add(place, at(op) - 1, storage->bytes);
      }
  for (Operation *op : group.ops)
    for (Value operand : op->getOperands())
      if (const Storage *storage = find(operand)) {
        add(storage->last + 1, place, storage->bytes);
        // What those alone read that stand earlier now.
        int64_t others =
            storage->value ? lastReader(storage->value, group) : storage->last;
        add(std::max(others, place) + 1, storage->last, -storage->bytes);
      }
  return changes;
}

/// Whether no op has more alive than before, in `parts`, and than the program's
/// highest point.
bool KernelGroups::keepsPeak(const KernelGroup &group,
                             ArrayRef<Group> parts) const {
  int64_t begin = std::min(at(group.ops.front()), at(group.place));
  int64_t end = std::max(at(group.ops.back()), at(group.place));
  SmallVector<int64_t> difference(end - begin + 2, 0);
  auto add = [&](const KernelGroup &each, int64_t sign) {
    for (auto [from, to, bytes] : getChanges(each)) {
      difference[std::clamp(from, begin, end + 1) - begin] += sign * bytes;
      difference[std::clamp(to + 1, begin, end + 1) - begin] -= sign * bytes;
    }
  };
  add(group, 1);
  for (const Group &part : parts)
    add(*part, -1);
  int64_t change = 0;
  for (int64_t i = begin; i <= end; ++i) {
    change += difference[i - begin];
    if (change > 0 && alive[i] + change > peak)
      return false;
  }
  return true;
}

void KernelGroups::apply(const KernelGroup &group, int64_t sign) {
  for (auto [begin, end, bytes] : getChanges(group))
    for (int64_t i = begin; i <= end; ++i)
      alive[i] += sign * bytes;
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

KernelGroups::KernelGroups(func::FuncOp program)
    : program(program), liveness(program) {
  for (Operation &op : program.getBody().front())
    positions[&op] = static_cast<int64_t>(positions.size());
  for (Operation &op : program.getBody().front())
    noteEvents(op);
  SmallVector<LivePoint> curve = getLiveCurve(liveness);
  auto *next = curve.begin();
  int64_t now = 0;
  for (int64_t i = -1; i < static_cast<int64_t>(positions.size()); ++i) {
    for (; next != curve.end() && next->time <= i; ++next)
      now = next->use.total();
    if (i >= 0)
      alive.push_back(now);
  }
  peak = alive.empty() ? 0 : *llvm::max_element(alive);
}

/// The groups of those that make the operands of `op`, the latest first.
SmallVector<KernelGroups::Group>
KernelGroups::findProducers(Operation &op) const {
  SmallVector<Group> groups;
  // What an update has from the step and the norm is made for all of them.
  auto update = dyn_cast<UpdateOp>(op);
  SmallVector<Value> operands =
      update ? getOperandsOf(update, 0) : SmallVector<Value>(op.getOperands());
  for (Value operand : operands) {
    SmallVector<Operation *> views;
    auto it = groupOf.find(findMaker(operand, views));
    if (it != groupOf.end() && !llvm::is_contained(groups, it->second))
      groups.push_back(it->second);
  }
  llvm::sort(groups, [](const Group &a, const Group &b) {
    return b->place->isBeforeInBlock(a->place);
  });
  return groups;
}

/// What reads `value`, or views of it that kernels see through.
static void listReaders(Value value, SmallVectorImpl<Operation *> &readers) {
  for (Operation *user : value.getUsers())
    if (isKernelView(user))
      listReaders(user->getResult(0), readers);
    else
      readers.push_back(user);
}

/// The groups that read what `op` reads, element by element.
SmallVector<KernelGroups::Group>
KernelGroups::findSiblings(Operation &op) const {
  SmallVector<Group> groups;
  if (op.hasAttr(kAgainAttr))
    return groups;
  auto type = dyn_cast<RankedTensorType>(op.getResult(0).getType());
  SmallVector<Value> operands(op.getOperands());
  // What an update's gradient is made of is read by its norm as well.
  if (isa<UpdateOp>(op))
    for (const Group &maker : findProducers(op))
      for (Operation *each : maker->ops)
        llvm::append_range(operands, each->getOperands());
  for (Value operand : operands) {
    auto own = cast<RankedTensorType>(operand.getType());
    if (!type || own.getNumElements() != type.getNumElements() ||
        own.getNumElements() < kWorthReading)
      continue;
    SmallVector<Operation *> readers;
    listReaders(operand, readers);
    for (Operation *reader : readers)
      if (auto it = groupOf.find(reader);
          it != groupOf.end() && !llvm::is_contained(groups, it->second) &&
          (isa<UpdateOp>(op) || at(&op) - at(it->second->place) < kNear))
        groups.push_back(it->second);
  }
  return groups;
}

/// `parts` and `op`, if they can be one kernel in that place.
std::optional<KernelGroup> KernelGroups::join(ArrayRef<Group> parts,
                                              Operation &op,
                                              Operation *place) const {
  KernelGroup group;
  group.place = place;
  group.ops.push_back(&op);
  for (const Group &part : parts)
    llvm::append_range(group.ops, part->ops);
  llvm::sort(group.ops,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  const Memories &memories = liveness.getMemories();
  bool isOnHost = memories.isHostOp(&op);
  if (llvm::any_of(group.ops, [&](Operation *each) {
        return memories.isHostOp(each) != isOnHost;
      }))
    return std::nullopt;
  if (failed(findViews(group)) || failed(findResults(group)) ||
      !isUndisturbed(group) || !keepsPeak(group, parts) ||
      !buildKernel(group.body(), group.results))
    return std::nullopt;
  return group;
}

bool KernelGroups::tryJoin(ArrayRef<Group> parts, Operation &op,
                           Operation *place) {
  std::optional<KernelGroup> group = join(parts, op, place);
  if (!group)
    return false;
  for (const Group &part : parts)
    apply(*part, -1);
  apply(*group, 1);
  auto shared = std::make_shared<KernelGroup>(std::move(*group));
  for (Operation *member : shared->ops)
    groupOf[member] = shared;
  return true;
}

/// Several, behind or before what would come between.
bool KernelGroups::tryJoinAll(ArrayRef<Group> parts, Operation &op) {
  if (parts.size() < 2)
    return false;
  SmallVector<Operation *> places{&op};
  for (const Group &part : parts)
    places.push_back(part->place);
  return llvm::any_of(
      places, [&](Operation *place) { return tryJoin(parts, op, place); });
}

void KernelGroups::visit(Operation &op) {
  if (!isKernelOp(&op))
    return;
  SmallVector<Group> producers = findProducers(op);
  SmallVector<Group> others(producers);
  for (const Group &sibling : findSiblings(op))
    if (!llvm::is_contained(others, sibling))
      others.push_back(sibling);
  if (tryJoinAll(others, op) ||
      (producers.size() < others.size() && tryJoinAll(producers, op)))
    return;
  // The norm of an update's gradient, without who else reads the parameter.
  if (isa<UpdateOp>(op))
    for (const Group &other : llvm::drop_begin(others, producers.size())) {
      SmallVector<Group> parts(producers);
      parts.push_back(other);
      if (tryJoinAll(parts, op))
        return;
    }
  for (const Group &other : others)
    if (tryJoin(other, op, &op) || tryJoin(other, op, other->place))
      return;
  tryJoin({}, op, &op);
}

/// Casts of what is large: LibTorch's take half as long again.
static bool isWorthAlone(Operation &op) {
  constexpr int64_t kLarge = int64_t{1} << 16;
  return aten::isPlainCast(&op) &&
         cast<RankedTensorType>(op.getResult(0).getType()).getNumElements() >=
             kLarge;
}

SmallVector<KernelGroup, 0> KernelGroups::take() {
  for (Operation &op : program.getBody().front().without_terminator())
    visit(op);
  SmallVector<KernelGroup, 0> groups;
  for (Operation &op : program.getBody().front())
    if (auto it = groupOf.find(&op);
        it != groupOf.end() && it->second->place == &op &&
        (it->second->ops.size() > 1 || isWorthAlone(op)))
      groups.push_back(*it->second);
  return groups;
}

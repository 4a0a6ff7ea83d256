//===- FlatMembers.cpp - What may lie in one flat state -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/shard/FlatMembers.h"

#include "ir/aten/Aten.h"
#include "ir/aten/Matchers.h"
#include "passes/analysis/Transfers.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"

#include <set>

using namespace mlir;
using namespace fsdp;

/// What vector kernels and copies like to begin at.
static constexpr int64_t kMemberAlignment = 128;

std::string fsdp::describeOp(Operation *op) {
  std::string text = op->getName().getStringRef().str();
  llvm::raw_string_ostream stream(text);
  if (auto properties =
          dyn_cast_or_null<DictionaryAttr>(op->getPropertiesAsAttribute()))
    for (NamedAttribute entry : properties)
      if (entry.getName() != "of")
        stream << ' ' << entry.getName().getValue() << '=' << entry.getValue();
  stream << " -> "
         << cast<RankedTensorType>(op->getResult(0).getType()).getElementType()
         << ';';
  return text;
}

namespace {

/// Reads one parameter's uses.
class UseReader {
public:
  UseReader(StateOp state, ParameterUse &use,
            const llvm::DenseMap<Operation *, unsigned> &positions)
      : state(state), use(use), positions(positions) {}

  void read(func::FuncOp func, std::optional<unsigned> result) {
    SmallVector<Operation *, 2> chain;
    readGathers(use.argument, chain);
    llvm::stable_sort(use.gathers, [&](const GatherUse &a, const GatherUse &b) {
      return positions.at(a.gather) < positions.at(b.gather);
    });
    if (result)
      readGradient(func, *result);
    for (const std::string &key : kinds)
      use.key += key;
    std::multiset<std::string> lives;
    for (const GatherUse &each : use.gathers)
      lives.insert(each.lifeKey + "|");
    for (const std::string &life : lives)
      use.lives += life;
  }

private:
  void readGathers(Value value, SmallVectorImpl<Operation *> &chain) {
    for (Operation *user : value.getUsers()) {
      if (auto gather = dyn_cast<AllGatherOp>(user);
          gather && !isOfStep(gather)) {
        addGather(gather, chain);
      } else if (isShardSide(user)) {
        chain.push_back(user);
        readGathers(user->getResult(0), chain);
        chain.pop_back();
      } else {
        use.problem = "is read by " + user->getName().getStringRef().str() +
                      " without being gathered";
      }
    }
  }

  void addGather(AllGatherOp gather, SmallVectorImpl<Operation *> &chain) {
    GatherUse each{gather, {chain.begin(), chain.end()}, {}};
    std::string kind = "gather ";
    bool isFirstLife = true;
    for (Operation *op : chain) {
      each.lifeKey += describeOp(op);
      isFirstLife &= !isa<ReplayOp, AllGatherOp>(op);
      if (isFirstLife)
        kind += describeOp(op);
    }
    kinds.insert(std::move(kind));
    use.gathers.push_back(std::move(each));
    // Parts that are kept of it are gathered again.
    for (Operation *reader : gather.getFull().getUsers())
      if (auto part = dyn_cast<ShardOp>(reader); part && !isOfStep(part)) {
        chain.append({gather, part});
        readGathers(part.getShard(), chain);
        chain.pop_back_n(2);
      }
  }

  /// Follows a result of the program up to the reduction that it comes from.
  void readGradient(func::FuncOp func, unsigned result) {
    GradientUse gradient;
    gradient.result = result;
    Value value = func.getBody().front().getTerminator()->getOperand(result);
    std::string kind;
    for (Operation *op = value.getDefiningOp(); op && value.hasOneUse();
         op = value.getDefiningOp()) {
      kind += describeOp(op);
      if (auto scatter = dyn_cast<ReduceScatterOp>(op);
          scatter && isOwn(scatter.getOfAttr())) {
        gradient.scatter = scatter;
        std::reverse(gradient.tail.begin(), gradient.tail.end());
        use.gradient = std::move(gradient);
        kinds.insert("gradient " + kind);
        return;
      }
      auto reduce = dyn_cast<AllReduceOp>(op);
      if (!(reduce && isOwn(reduce.getOfAttr())) && !aten::isCast(op))
        break;
      gradient.tail.push_back(op);
      value = op->getOperand(0);
    }
    use.problem = "has a gradient that is not simply reduced";
  }

  bool isOwn(FlatSymbolRefAttr of) {
    return of && of.getAttr() == state.getSymNameAttr();
  }

  StateOp state;
  ParameterUse &use;
  const llvm::DenseMap<Operation *, unsigned> &positions;
  std::set<std::string> kinds; ///< of gathers and gradient
};

} // namespace

ProgramUses::ProgramUses(func::FuncOp func, const StateTable &states) {
  for (auto [i, op] : llvm::enumerate(func.getBody().front()))
    positions[&op] = i;
  llvm::DenseMap<Attribute, unsigned> gradients;
  for (unsigned i = 0; i < func.getNumResults(); ++i)
    if (Attribute of = func.getResultAttr(i, kGradientAttr))
      gradients[of] = i;
  for (BlockArgument argument : func.getArguments()) {
    StateOp state = states.lookup(func, argument.getArgNumber());
    if (!state || !isParameter(state) || !state.getSharding())
      continue;
    ParameterUse &use = uses[state];
    use.argument = argument;
    auto it = gradients.find(FlatSymbolRefAttr::get(state.getSymNameAttr()));
    UseReader(state, use, positions)
        .read(func,
              it == gradients.end() ? std::nullopt : std::optional(it->second));
  }
  numberPhases(func, states);
}

void ProgramUses::numberPhases(func::FuncOp func, const StateTable &states) {
  StringRef bucket;
  unsigned phase = 0;
  for (auto scatter : func.getOps<ReduceScatterOp>()) {
    StateOp state = states.lookup(scatter.getOfAttr());
    if (!state || !state.getBucket())
      continue;
    if (*state.getBucket() != bucket)
      ++phase;
    bucket = *state.getBucket();
    if (auto it = uses.find(state); it != uses.end())
      it->second.phase = phase;
  }
}

int64_t fsdp::countVainElements(ArrayRef<StateOp> members,
                                const ProgramUses &uses) {
  // How many elements each gather of the flat state would be for.
  llvm::MapVector<std::pair<StringRef, unsigned>, int64_t> wanted;
  int64_t all = 0;
  for (StateOp member : members) {
    const ParameterUse *use = uses.lookup(member);
    if (!use)
      continue;
    int64_t elements = member.getGlobalType().getNumElements();
    all += elements;
    llvm::StringMap<unsigned> counts;
    for (const GatherUse &each : use->gathers)
      wanted[{each.lifeKey, counts[each.lifeKey]++}] += elements;
  }
  int64_t vain = 0;
  for (auto &[life, elements] : wanted)
    vain += all - elements;
  return vain;
}

const ParameterUse *ProgramUses::lookup(StateOp state) const {
  auto it = uses.find(state);
  return it == uses.end() ? nullptr : &it->second;
}

int64_t ProgramUses::getLeastBytes(ArrayRef<StateOp> members) const {
  int64_t least = kMemberAlignment;
  auto add = [&](Type type) {
    least = std::min(least, aten::getElementBytes(
                                cast<RankedTensorType>(type).getElementType()));
  };
  for (StateOp member : members) {
    add(member.getGlobalType());
    const ParameterUse *use = lookup(member);
    if (!use)
      continue;
    for (const GatherUse &each : use->gathers) {
      AllGatherOp gather = each.gather;
      add(gather.getFull().getType());
    }
    if (use->gradient) {
      ReduceScatterOp scatter = use->gradient->scatter;
      add(scatter.getFull().getType());
    }
  }
  return least;
}

void ProgramUses::renumberResults(func::FuncOp func) {
  llvm::DenseMap<Attribute, unsigned> gradients;
  for (unsigned i = 0; i < func.getNumResults(); ++i)
    if (Attribute of = func.getResultAttr(i, kGradientAttr))
      gradients[of] = i;
  for (auto &[op, use] : uses)
    if (use.gradient) {
      auto it = gradients.find(
          FlatSymbolRefAttr::get(cast<StateOp>(op).getSymNameAttr()));
      if (it != gradients.end())
        use.gradient->result = it->second;
    }
}

int64_t fsdp::placeMembers(ArrayRef<StateOp> members, int64_t ranks,
                           int64_t leastBytes, int64_t floorBytes,
                           int64_t leastElements,
                           SmallVectorImpl<int64_t> &offsets) {
  int64_t byRows = 0;
  for (StateOp member : members) {
    RankedTensorType type = member.getGlobalType();
    byRows += getShardType(type, 0, member.getSharding().getGroup())
                  .getNumElements() *
              ranks;
  }
  auto count = [&](int64_t bytes) {
    return std::max(leastElements, bytes / std::max<int64_t>(leastBytes, 1));
  };
  int64_t alignment = count(kMemberAlignment), floor = count(floorBytes);
  for (;; alignment /= 2) {
    offsets.clear();
    int64_t end = 0;
    for (StateOp member : members) {
      offsets.push_back(llvm::alignTo(end, alignment));
      end = offsets.back() + member.getGlobalType().getNumElements();
    }
    int64_t part = llvm::alignTo(llvm::divideCeil(end, ranks), alignment);
    if (alignment == floor || part * ranks <= byRows)
      return part * ranks;
  }
}

//===- AssignGroups.cpp - Who is updated with which settings -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/NamePatterns.h"
#include "passes/analysis/States.h"
#include "passes/shard/GroupSettings.h"
#include "support/Pattern.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_ASSIGNGROUPS
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

struct AssignGroups final : fsdp::impl::AssignGroupsBase<AssignGroups> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto optimizer = getSetting<OptimizerAttr>(module);
    groups = getList<ParamGroupAttr>(optimizer.getGroups());
    if (groups.empty())
      return;
    settings = getGroupSettings(optimizer);
    if (failed(checkPatterns(module)))
      return signalPassFailure();
    for (StateOp state : module.getOps<StateOp>())
      if (isParameter(state) && !state.isFlat() && failed(assign(state)))
        return signalPassFailure();
    if (failed(assignFlat(module)))
      return signalPassFailure();
  }

private:
  LogicalResult checkPatterns(ModuleOp module) const {
    std::vector<std::string> names = getParameterNames(module);
    for (ParamGroupAttr group : groups)
      for (StringRef pattern : getTexts(group.getParams()))
        if (llvm::none_of(names, [&](const std::string &name) {
              return matchesPattern(pattern.str(), name);
            }))
          return module.emitError("the pattern '")
                 << pattern
                 << "' of the optimizer's groups matches no parameter"
                 << suggestNames(pattern, names);
    return success();
  }

  /// The last group that matches a name.
  struct Match {
    StringRef name;
    size_t group = 0; ///< from 1; 0: none
    StringRef pattern;
  };

  Match findLast(StringRef name) const {
    Match match{name, 0, {}};
    for (auto [i, group] : llvm::enumerate(groups))
      for (StringRef pattern : getTexts(group.getParams()))
        if (matchesPattern(pattern.str(), name.str()))
          match = {name, i + 1, pattern};
    return match;
  }

  LogicalResult assign(StateOp parameter) const {
    auto matches =
        llvm::map_to_vector(parameter.getAllNames(),
                            [&](StringRef name) { return findLast(name); });
    const Match &winner =
        *llvm::max_element(matches, [](const Match &a, const Match &b) {
          return a.group < b.group;
        });
    if (winner.group != 0)
      parameter.setGroup(winner.group);
    // A general rule that the winner refines is no contradiction: it would take
    // the winner's name as well.
    for (const Match &match : matches)
      if (match.group != 0 && settings[match.group] != settings[winner.group] &&
          !matchesAny(groups[match.group - 1].getParams(), winner.name))
        return parameter.emitOpError("is in two groups of the optimizer that "
                                     "differ: '")
               << match.pattern << "' matches '" << match.name << "' and '"
               << winner.pattern << "' matches '" << winner.name
               << "', which are one tensor; let one group match both names";
    return success();
  }

  /// A flat state is in the group of its members.
  static LogicalResult assignFlat(ModuleOp module) {
    StateTable states(module);
    llvm::DenseSet<Operation *> known;
    for (StateOp state : states.getStates()) {
      if (!isParameter(state) || !state.getPart())
        continue;
      StateOp flat = states.lookup(state.getPart().getFlat());
      if (known.insert(flat).second)
        flat.setGroupAttr(state.getGroupAttr());
      else if (flat.getGroup() != state.getGroup())
        return state.emitOpError("is in another group of the optimizer than "
                                 "other members of '")
               << flat.getSymName()
               << "'; run fsdp-assign-groups before fsdp-flatten-buckets";
    }
    return success();
  }

  SmallVector<ParamGroupAttr> groups;
  SmallVector<GroupSettings> settings; ///< first those without a group
};

} // namespace

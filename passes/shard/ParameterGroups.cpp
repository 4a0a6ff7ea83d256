//===- ParameterGroups.cpp - Who is updated with which settings -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/shard/ParameterGroups.h"

#include "passes/analysis/NamePatterns.h"
#include "passes/analysis/Programs.h"
#include "runtime/support/Pattern.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fsdp;

/// Null if no setting has that name.
static double OptimizerSettings::*findNumber(StringRef name) {
  static constexpr std::pair<StringLiteral, double OptimizerSettings::*>
      numbers[] = {{"lr", &OptimizerSettings::lr},
                   {"beta1", &OptimizerSettings::beta1},
                   {"beta2", &OptimizerSettings::beta2},
                   {"eps", &OptimizerSettings::eps},
                   {"weight-decay", &OptimizerSettings::weightDecay},
                   {"momentum", &OptimizerSettings::momentum}};
  for (auto &[each, member] : numbers)
    if (each == name)
      return member;
  return nullptr;
}

static bool setSetting(OptimizerSettings &settings, StringRef name,
                       StringRef value) {
  if (name == "nesterov") {
    settings.nesterov = value == "true";
    return value == "true" || value == "false";
  }
  double OptimizerSettings::*number = findNumber(name);
  return number && !value.getAsDouble(settings.*number);
}

LogicalResult ParameterGroups::parseGroup(ModuleOp module, StringRef text) {
  // A pattern may have a colon in it, a setting has none.
  auto [patterns, settings] = text.rsplit(':');
  Group group{{}, groups.front().settings};
  SmallVector<StringRef> parts;
  patterns.split(parts, '|', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  if (parts.empty())
    return module.emitError("expected patterns of names in the optimizer's "
                            "group '")
           << text << "', such as '*.bias|*norm*:weight-decay=0'";
  for (StringRef pattern : parts)
    group.patterns.push_back(pattern.str());
  parts.clear();
  settings.split(parts, ';', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  for (StringRef part : parts) {
    auto [name, value] = part.split('=');
    if (!setSetting(group.settings, name, value))
      return module.emitError("expected a setting out of lr, beta1, beta2, "
                              "eps, weight-decay, momentum (numbers) and "
                              "nesterov (true, false) in the optimizer's "
                              "group '")
             << text << "', found '" << part << "'";
  }
  groups.push_back(std::move(group));
  return success();
}

LogicalResult ParameterGroups::checkPatterns(ModuleOp module) const {
  std::vector<std::string> names = getParameterNames(module);
  for (const Group &group : groups)
    for (const std::string &pattern : group.patterns)
      if (llvm::none_of(names, [&](const std::string &name) {
            return matchesPattern(pattern, name);
          }))
        return module.emitError("the pattern '")
               << pattern << "' of the optimizer's groups matches no parameter"
               << suggestNames(pattern, names);
  return success();
}

LogicalResult ParameterGroups::assign(StateOp parameter, bool checkTied) {
  struct Match {
    StringRef name;
    unsigned group = 0;                   ///< the last that matches
    const std::string *pattern = nullptr; ///< of that group
  };
  auto findLast = [&](StringRef name) {
    Match match{name};
    for (unsigned i = 1; i < groups.size(); ++i)
      for (const std::string &pattern : groups[i].patterns)
        if (matchesPattern(pattern, name.str()))
          match = {name, i, &pattern};
    return match;
  };
  auto matches = llvm::map_to_vector(parameter.getAllNames(), findLast);
  const Match &winner =
      *llvm::max_element(matches, [](const Match &a, const Match &b) {
        return a.group < b.group;
      });
  members[parameter.getSymNameAttr()] = winner.group;
  if (!checkTied)
    return success();
  // A general rule that the winner refines is no contradiction: it would take
  // the winner's name as well.
  for (const Match &match : matches) {
    if (!match.group ||
        groups[match.group].settings == groups[winner.group].settings)
      continue;
    bool isGeneral = llvm::any_of(
        groups[match.group].patterns, [&](const std::string &pattern) {
          return matchesPattern(pattern, winner.name.str());
        });
    if (!isGeneral)
      return parameter.emitOpError("is in two groups of the optimizer that "
                                   "differ: '")
             << *match.pattern << "' matches '" << match.name << "' and '"
             << *winner.pattern << "' matches '" << winner.name
             << "', which are one tensor; let one group match both names";
  }
  return success();
}

FailureOr<ParameterGroups> ParameterGroups::parse(ModuleOp module,
                                                  const OptimizerSettings &base,
                                                  ArrayRef<std::string> texts,
                                                  bool checkTied) {
  ParameterGroups result;
  result.groups.push_back({{}, base});
  for (const std::string &text : texts)
    if (failed(result.parseGroup(module, text)))
      return failure();
  if (failed(result.checkPatterns(module)))
    return failure();
  for (StateOp state : module.getOps<StateOp>())
    if (isParameter(state) && !state.isFlat() &&
        failed(result.assign(state, checkTied)))
      return failure();
  // A flat state is in the group of its members.
  for (StateOp state : module.getOps<StateOp>())
    if (std::optional<PartAttr> part = state.getPart();
        part && isParameter(state)) {
      unsigned group = result.lookup(state);
      auto [it, isNew] =
          result.members.try_emplace(part->getFlat().getAttr(), group);
      if (!isNew && it->second != group)
        return state.emitOpError("is in another group of the optimizer than "
                                 "other members of '")
               << part->getFlat().getValue()
               << "'; give fsdp-flatten-buckets the same groups";
    }
  return result;
}

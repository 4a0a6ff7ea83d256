//===- NamePatterns.cpp - Patterns of parameters' names -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/NamePatterns.h"

#include "support/Nearest.h"
#include "support/Pattern.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

using namespace fsdp;
using llvm::StringRef;

bool fsdp::matchesAny(mlir::ArrayAttr patterns, StringRef name) {
  return llvm::any_of(getTexts(patterns), [&](StringRef pattern) {
    return matchesPattern(pattern.str(), name.str());
  });
}

std::vector<std::string> fsdp::getParameterNames(mlir::ModuleOp module) {
  std::vector<std::string> names;
  for (StateOp state : module.getOps<StateOp>())
    if (isParameter(state) && !state.isFlat())
      for (StringRef name : state.getAllNames())
        names.push_back(name.str());
  return names;
}

/// What a pattern says in letters, at its longest: ".wieght" of "*.wieght".
static StringRef getLongestText(StringRef pattern) {
  StringRef longest;
  while (!pattern.empty()) {
    StringRef text = pattern.take_until(
        [](char c) { return StringRef("*?[]").contains(c); });
    if (text.size() > longest.size())
      longest = text;
    pattern = pattern.drop_front(std::min(text.size() + 1, pattern.size()));
  }
  return longest.trim('.');
}

std::string fsdp::suggestNames(StringRef pattern,
                               llvm::ArrayRef<std::string> names) {
  StringRef text = getLongestText(pattern);
  // Whole names, their beginnings, their ends and what stands between dots.
  std::vector<std::string_view> candidates;
  for (StringRef name : names) {
    candidates.push_back(name);
    for (size_t dot = name.find('.'); dot != StringRef::npos;
         dot = name.find('.', dot + 1)) {
      candidates.push_back(name.take_front(dot));
      candidates.push_back(name.drop_front(dot + 1));
    }
    llvm::SmallVector<StringRef> parts;
    name.split(parts, '.');
    candidates.insert(candidates.end(), parts.begin(), parts.end());
  }
  std::string_view nearest =
      text.empty() ? std::string_view() : findNearest(text, candidates);
  if (!nearest.empty() && nearest != std::string_view(text))
    return "; did you mean '" + std::string(nearest) + "'?";
  constexpr size_t kShown = 6;
  std::string list;
  for (const std::string &name : names.take_front(kShown))
    list += (list.empty() ? "" : ", ") + name;
  return names.empty()
             ? ""
             : "; there are " + list + (names.size() > kShown ? ", …" : "");
}

mlir::LogicalResult fsdp::verifyMatches(mlir::ModuleOp module, RuleAttr rule,
                                        const llvm::StringSet<> &buckets,
                                        StringRef what) {
  for (StringRef pattern : getTexts(rule.getBuckets()))
    if (llvm::none_of(buckets.keys(), [&](StringRef bucket) {
          return matchesPattern(pattern.str(), bucket.str());
        }))
      return module.emitError("expected ")
             << what << " whose names match '" << pattern
             << "', found none; fsdp-opt MODEL --explain lists them";
  return mlir::success();
}

llvm::StringSet<> fsdp::getBucketNames(mlir::ModuleOp module) {
  llvm::StringSet<> names;
  for (StateOp state : module.getOps<StateOp>())
    if (state.getBucket())
      names.insert(*state.getBucket());
  return names;
}

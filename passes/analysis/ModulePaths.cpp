//===- ModulePaths.cpp - Names of modules within one another --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/ModulePaths.h"

using namespace fsdp;
using llvm::StringRef;

StringRef fsdp::getParentPath(StringRef path) {
  size_t dot = path.rfind('.');
  return dot == StringRef::npos ? StringRef() : path.take_front(dot);
}

std::optional<StringRef>
fsdp::findAround(StringRef path, llvm::function_ref<bool(StringRef)> holds) {
  do {
    if (holds(path))
      return path;
    path = getParentPath(path);
  } while (!path.empty());
  return std::nullopt;
}

//===- Json.cpp - Reads JSON whose form is known --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/Json.h"

using namespace fsdp::capture;

/// The most lists and objects of `text` that are open at once.
static size_t getDepth(llvm::StringRef text) {
  size_t depth = 0, deepest = 0;
  bool isString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (isString) {
      i += c == '\\';
      isString = c != '"';
    } else if (c == '"') {
      isString = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      depth -= depth != 0;
    }
  }
  return deepest;
}

llvm::Expected<json::Value> json::parse(llvm::StringRef text) {
  // PyTorch's own nests some ten levels deep.
  constexpr size_t kDeepest = 500;
  if (size_t depth = getDepth(text); depth > kDeepest)
    return llvm::createStringError("it is nested " + std::to_string(depth) +
                                   " levels deep, more than " +
                                   std::to_string(kDeepest));
  return llvm::json::parse(text);
}

//===- Nesting.cpp - How deep a text nests --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/Nesting.h"

#include "support/Error.h"

#include <algorithm>

using namespace fsdp;

size_t fsdp::jsonDepth(std::string_view text) {
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

void fsdp::checkJsonDepth(std::string_view text, const std::string &what) {
  if (size_t depth = jsonDepth(text); depth > kDeepestJson)
    throw Error(ErrorId::FileImplausible,
                what + " nests " + std::to_string(depth) +
                    " levels deep, more than " + std::to_string(kDeepestJson) +
                    "; it is damaged or was made to do harm");
}

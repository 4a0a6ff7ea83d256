//===- Json.cpp - Reads JSON whose form is known --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/pt2/Json.h"

#include "support/Nesting.h"

using namespace fsdp::capture;

llvm::Expected<json::Value> json::parse(llvm::StringRef text) {
  if (size_t depth = fsdp::jsonDepth(text); depth > kDeepestJson)
    return llvm::createStringError("it is nested " + std::to_string(depth) +
                                   " levels deep, more than " +
                                   std::to_string(kDeepestJson));
  return llvm::json::parse(text);
}

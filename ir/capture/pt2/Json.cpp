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
  try {
    return Value::parse(text.begin(), text.end());
  } catch (const Value::exception &error) {
    // Without "[json.exception.parse_error.101]", the library's own number.
    llvm::StringRef what = error.what();
    return llvm::createStringError(
        what.split("] ").second.empty() ? what : what.split("] ").second);
  }
}

//===- BlockCodes.cpp - Numbers of 8 bits that share a scale --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/BlockCodes.h"

using namespace fsdp;

const DynamicMap &fsdp::getDynamicMap(bool isSigned) {
  static constexpr DynamicMap withSign = makeDynamicMap(true),
                              without = makeDynamicMap(false);
  return isSigned ? withSign : without;
}

const Float8Map &fsdp::getFloat8Map() {
  static constexpr Float8Map map = makeFloat8Map();
  return map;
}

//===- TargetScope.cpp - The thread's target device -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/meta/TargetScope.h"

using namespace fsdp;
using namespace fsdp::meta;

static thread_local Target current;

const Target &meta::getTarget() { return current; }

TargetScope::TargetScope(const Target &target) : previous(current) {
  current = target;
}

TargetScope::~TargetScope() { current = previous; }

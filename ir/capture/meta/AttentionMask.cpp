//===- AttentionMask.cpp - What a mask says of attention ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/meta/AttentionMask.h"

using namespace fsdp::meta;

static thread_local MaskReader *current = nullptr;

MaskReader *fsdp::meta::getMaskReader() { return current; }

MaskReaderScope::MaskReaderScope(MaskReader &reader) : previous(current) {
  current = &reader;
}

MaskReaderScope::~MaskReaderScope() { current = previous; }

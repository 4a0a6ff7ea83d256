//===- AttentionReader.cpp - What attention is given ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/meta/AttentionReader.h"

using namespace fsdp::meta;

static thread_local AttentionReader *current = nullptr;

AttentionReader *fsdp::meta::getAttentionReader() { return current; }

AttentionReaderScope::AttentionReaderScope(AttentionReader &reader)
    : previous(current) {
  current = &reader;
}

AttentionReaderScope::~AttentionReaderScope() { current = previous; }

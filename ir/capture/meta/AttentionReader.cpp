//===- AttentionReader.cpp - What attention is given ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/meta/AttentionReader.h"

#include <ATen/ops/zeros_like.h>

using namespace fsdp::meta;

Tensor fsdp::meta::makeAdded(const Tensor &mask, at::ScalarType dtype,
                             double masked) {
  Tensor added = at::zeros_like(mask, mask.options().dtype(dtype));
  return added.masked_fill_(mask.logical_not(), masked);
}

static thread_local AttentionReader *current = nullptr;

AttentionReader *fsdp::meta::getAttentionReader() { return current; }

AttentionReaderScope::AttentionReaderScope(AttentionReader &reader)
    : previous(current) {
  current = &reader;
}

AttentionReaderScope::~AttentionReaderScope() { current = previous; }

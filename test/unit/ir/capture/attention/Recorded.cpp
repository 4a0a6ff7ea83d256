//===- Recorded.cpp - A mask as capture sees it ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/ir/capture/attention/Recorded.h"
#include "ir/capture/joint/Recorder.h"
#include "ir/capture/joint/RecorderScope.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>

using namespace fsdp;
using namespace fsdp::attention;

Recorded
attention::record(const std::function<at::Tensor(const at::Tensor &)> &make,
                  int64_t keys) {
  auto graph = std::make_unique<capture::JointGraph>();
  capture::Recorder recorder(*graph);
  at::Tensor inner =
      at::empty({2, 1, 1, keys}, at::device(at::kMeta).dtype(at::kBool));
  recorder.define(inner);
  at::Tensor input = at::functionalization::impl::to_functional_tensor(inner);
  capture::ValueId value;
  {
    capture::Recorder::Scope scope(recorder);
    value = recorder.lookup(make(input));
  }
  return {std::move(graph), value};
}

at::Tensor attention::positions(int64_t n) {
  return at::arange(n, at::device(at::kMeta).dtype(at::kLong));
}

//===- Reader.cpp - Reads what attention gets in a recorded graph ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/attention/Reader.h"
#include "ir/capture/attention/MaskForms.h"
#include "ir/capture/attention/Plainly.h"
#include "ir/capture/attention/SharedHeads.h"

using namespace fsdp;
using namespace fsdp::attention;
using meta::MaskForm;

MaskForm Reader::read(const at::Tensor &mask, int64_t queries, int64_t keys) {
  if (mask.requires_grad())
    return MaskForm::Unknown;
  capture::ValueId value = capture.getRecorder().lookup(mask);
  auto [it, isNew] =
      forms.try_emplace({value, queries, keys}, MaskForm::Unknown);
  if (isNew) {
    Plainly plainly;
    it->second = readForm(values, value, queries, keys);
  }
  capture.noteMask({it->second, capture.getRecorder().currentLocation()});
  return it->second;
}

at::Tensor Reader::findSharedHeads(const at::Tensor &repeated) {
  return attention::findSharedHeads(capture.getRecorder(), capture.getGraph(),
                                    producers, repeated);
}

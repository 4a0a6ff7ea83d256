//===- Reader.cpp - Reads the masks of a graph that is recorded -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/masks/Reader.h"
#include "ir/capture/masks/MaskForms.h"
#include "ir/capture/masks/Plainly.h"

using namespace fsdp;
using namespace fsdp::masks;
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

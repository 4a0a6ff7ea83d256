//===- Reader.cpp - Reads what attention gets in a recorded graph ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/attention/Reader.h"
#include "ir/capture/attention/Documents.h"
#include "ir/capture/attention/MaskForms.h"
#include "ir/capture/attention/Padding.h"
#include "ir/capture/attention/SharedHeads.h"
#include "ir/capture/meta/BlockAttention.h"
#include "ir/capture/meta/Plainly.h"
#include "ir/capture/meta/TargetScope.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>

using namespace fsdp;
using namespace fsdp::attention;
using meta::MaskForm;
using meta::MaskReading;

/// Whether queries see no keys behind their own place.
static bool isWindowInFront(const MaskReading &reading) {
  return reading.form == MaskForm::Window &&
         (reading.end == at::arange(1, reading.end.size(0) + 1))
             .all()
             .item<bool>();
}

MaskReading Reader::read(const at::Tensor &mask, int64_t queries,
                         int64_t keys) {
  if (mask.requires_grad())
    return {};
  capture::ValueId value = capture.getRecorder().lookup(mask);
  auto [it, isNew] = readings.try_emplace({value, queries, keys});
  MaskReading &reading = it->second;
  if (isNew) {
    meta::Plainly plainly;
    reading = readMask(values, value, queries, keys);
    bool hasFlag =
        reading.form == MaskForm::All || reading.form == MaskForm::Causal;
    // Ranks that have parts of sequences know flags, and windows of what is in
    // front, for which neighbours have the keys.
    if (request.cutsSequences && !hasFlag) {
      if (!isWindowInFront(reading))
        reading = {};
    } else if (reading.form != MaskForm::Unknown && !hasFlag) {
      reading.blocks =
          std::make_shared<const std::vector<meta::AttentionBlock>>(
              meta::chooseBlocks(reading, keys));
    }
  }
  return reading;
}

std::optional<meta::DocumentReading>
Reader::readDocuments(const at::Tensor &mask, const MaskReading &reading,
                      int64_t batch, int64_t length) {
  // Ranks that have parts of sequences have kernels for these on GPUs alone.
  bool isTold = !request.cutsSequences ||
                meta::getTarget().device == Target::Device::Cuda;
  if (mask.requires_grad() || !isTold)
    return std::nullopt;
  capture::ValueId value = capture.getRecorder().lookup(mask);
  auto [it, isNew] = documents.try_emplace({value, batch, length});
  if (isNew)
    it->second = makeDocuments(value, reading, batch, length);
  return it->second;
}

std::optional<meta::DocumentReading>
Reader::makeDocuments(capture::ValueId mask, const MaskReading &reading,
                      int64_t batch, int64_t length) {
  std::optional<FixedDocuments> fixed;
  std::optional<Documents> found;
  {
    meta::Plainly plainly;
    if (reading.form != MaskForm::Unknown)
      fixed = findFixedDocuments(reading);
    else
      found = findDocuments(capture.getGraph(), values, mask, batch, length);
    // Of parts of sequences no query may see keys of its document that are
    // behind it, but not all.
    if (found && request.cutsSequences &&
        found->within.form == MaskForm::Window &&
        !isWindowInFront(found->within))
      found.reset();
  }
  if (fixed)
    return meta::DocumentReading{
        makeFixedBounds(*fixed, batch),
        {fixed->isCausal ? MaskForm::Causal : MaskForm::All, {}, {}}};
  if (!found)
    return std::nullopt;
  at::Tensor &known = bounds[{found->ids, batch}];
  if (!known.defined()) {
    at::Tensor ids = at::functionalization::impl::to_functional_tensor(
        capture.getRecorder().getMeta(found->ids));
    known = makeBounds(ids.expand({batch, length}),
                       batch * request.countDocuments(length));
  }
  return meta::DocumentReading{known, found->within};
}

std::optional<meta::PaddingReading> Reader::readPadding(const at::Tensor &mask,
                                                        int64_t batch,
                                                        int64_t queries,
                                                        int64_t keys) {
  if (mask.requires_grad() || request.cutsSequences)
    return std::nullopt;
  capture::ValueId value = capture.getRecorder().lookup(mask);
  auto [it, isNew] = paddings.try_emplace({value, batch, queries, keys});
  if (isNew)
    it->second = makePadding(value, batch, queries, keys);
  return it->second;
}

std::optional<meta::PaddingReading> Reader::makePadding(capture::ValueId mask,
                                                        int64_t batch,
                                                        int64_t queries,
                                                        int64_t keys) {
  std::optional<Padding> found;
  {
    meta::Plainly plainly;
    found = findPadding(capture.getGraph(), values, mask, batch, queries, keys);
  }
  if (!found)
    return std::nullopt;
  at::Tensor &known = seen[found->seen];
  if (!known.defined())
    for (capture::ValueId each : found->seen) {
      at::Tensor part = at::functionalization::impl::to_functional_tensor(
          capture.getRecorder().getMeta(each));
      while (part.dim() < 4)
        part = part.unsqueeze(0);
      known = known.defined() ? known.logical_and(part) : part;
    }
  return meta::PaddingReading{known, found->within};
}

void Reader::note(const meta::AttentionCall &call) {
  capture.noteAttention({call, capture.getRecorder().currentLocation()});
}

at::Tensor Reader::getAdded(const at::Tensor &mask, at::ScalarType dtype,
                            double masked) {
  capture::ValueId value = capture.getRecorder().lookup(mask);
  at::Tensor &known = added[{value, dtype, masked}];
  if (!known.defined())
    known = meta::makeAdded(mask, dtype, masked);
  return known;
}

/// The numbers, as a tensor [rows, 1] of the program.
static at::Tensor toColumn(const at::Tensor &numbers) {
  return numbers.unsqueeze(-1);
}

at::Tensor Reader::getRanges(const at::Tensor &begin, const at::Tensor &end,
                             int64_t keys) {
  std::vector<int64_t> key;
  for (const at::Tensor &each : {begin, end})
    key.insert(key.end(), each.data_ptr<int64_t>(),
               each.data_ptr<int64_t>() + each.numel());
  key.push_back(keys);
  at::Tensor &known = ranges[key];
  if (!known.defined()) {
    at::Tensor at = at::arange(
        keys, at::TensorOptions().dtype(at::kLong).device(at::kMeta));
    known = (at >= toColumn(begin)).logical_and(at < toColumn(end));
  }
  return known;
}

at::Tensor Reader::findSharedHeads(const at::Tensor &heads, int64_t queries) {
  at::Tensor shared = heads;
  if (heads.size(1) == queries)
    shared = attention::findSharedHeads(capture.getRecorder(),
                                        capture.getGraph(), producers, heads);
  else if (heads.size(1) != 1)
    return {};
  // Ranks that split heads need as many of these.
  if (shared.defined() && shared.size(1) % request.headParts != 0)
    return {};
  return shared;
}

at::Tensor Reader::findRows(const at::Tensor &tensor, const at::Tensor &rows) {
  capture::ValueId value = capture.getRecorder().lookup(tensor);
  meta::Plainly plainly;
  return values.isConstant(value) ? values.getRows(value, rows) : at::Tensor();
}

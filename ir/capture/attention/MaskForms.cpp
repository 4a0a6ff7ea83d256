//===- MaskForms.cpp - Which keys masks let be seen -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/attention/MaskForms.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <limits>
#include <random>
#include <stdexcept>

using namespace fsdp;
using namespace fsdp::attention;
using at::Tensor;
using meta::MaskForm;
using meta::MaskReading;

/// Rows that are compared with the mask as it is computed, where not all are.
static constexpr int64_t kCompared = 64;
/// Elements of these, at most.
static constexpr int64_t kMostCompared = int64_t(1) << 24;

/// Of a floating-point dtype.
static double leastOf(at::ScalarType dtype) {
  switch (dtype) {
  case at::kDouble:
    return std::numeric_limits<double>::lowest();
  case at::kBFloat16:
    return std::numeric_limits<c10::BFloat16>::lowest();
  case at::kHalf:
    return std::numeric_limits<c10::Half>::lowest();
  default:
    return std::numeric_limits<float>::lowest();
  }
}

/// Which numbers of a mask let a key be seen, and which do not.
static std::pair<Tensor, Tensor> readNumbers(const Tensor &numbers) {
  if (numbers.scalar_type() == at::kBool)
    return {numbers, numbers.logical_not()};
  if (!at::isFloatingType(numbers.scalar_type()))
    return {at::zeros_like(numbers, at::kBool),
            at::zeros_like(numbers, at::kBool)};
  return {numbers == 0, numbers <= leastOf(numbers.scalar_type())};
}

std::optional<VisibleKeys> attention::findVisible(const Steps &mask) {
  auto [isSeen, isLow] = readNumbers(mask.values);
  int64_t pieces = mask.ends.size(-1);
  Tensor starts = at::cat({at::zeros_like(mask.ends.narrow(-1, 0, 1)),
                           mask.ends.narrow(-1, 0, pieces - 1)},
                          -1);
  Tensor isEmpty = starts == mask.ends;
  if (!(isSeen | isLow | isEmpty).all().item<bool>())
    return std::nullopt;
  isSeen = isSeen & isEmpty.logical_not();
  Tensor none = at::full_like(mask.ends, mask.columns());
  Tensor begin = at::where(isSeen, starts, none).amin(-1);
  Tensor end = at::where(isSeen, mask.ends, at::zeros_like(none)).amax(-1);
  // One range has as many keys as all pieces together.
  Tensor seen =
      at::where(isSeen, mask.ends - starts, at::zeros_like(none)).sum(-1);
  if (!(seen == (end - begin).clamp_min(0)).all().item<bool>())
    return std::nullopt;
  return VisibleKeys{begin, end};
}

static bool areEqual(const Tensor &a, const Tensor &b) {
  return (a == b).all().item<bool>();
}

/// The form of ranges.
static MaskForm nameForm(const Tensor &begin, const Tensor &end, int64_t keys) {
  Tensor query = at::arange(end.size(0));
  auto within = [&](const Tensor &key) { return key.clamp(0, keys); };
  bool isFromStart = areEqual(begin, at::zeros_like(begin));
  bool isCausal = areEqual(end, within(query + 1));
  if (isFromStart && areEqual(end, at::full_like(end, keys)))
    return MaskForm::All;
  if (isFromStart && isCausal)
    return MaskForm::Causal;
  // As far as any query sees.
  int64_t left = (query - begin).amax().item<int64_t>();
  int64_t right = (end - 1 - query).amax().item<int64_t>();
  if (left >= 0 && right >= 0 && areEqual(begin, within(query - left)) &&
      areEqual(end, within(query + right + 1)))
    return MaskForm::Window;
  // All see what the first one sees.
  if (isFromStart && areEqual(end, within(at::maximum(query + 1, end[0]))))
    return MaskForm::Prefix;
  int64_t chunk = isCausal ? left + 1 : 1;
  if (isCausal && areEqual(begin, query.div(chunk, "floor") * chunk))
    return MaskForm::Chunks;
  return MaskForm::Ranges;
}

MaskReading attention::classify(const Steps &mask, int64_t queries,
                                int64_t keys) {
  std::optional<VisibleKeys> visible = findVisible(mask);
  if (!visible || mask.columns() != keys ||
      (visible->begin >= visible->end).any().item<bool>())
    return {};
  auto ofAll = [&](const Tensor &bounds) -> Tensor {
    Tensor rows = bounds.reshape({-1, bounds.size(-1)});
    if (!areEqual(rows, rows[0].expand_as(rows)))
      return {};
    return rows[0].expand({queries}).contiguous();
  };
  if (visible->end.size(-1) != queries && visible->end.size(-1) != 1)
    return {};
  Tensor begin = ofAll(visible->begin), end = ofAll(visible->end);
  if (!begin.defined() || !end.defined())
    return {};
  return {nameForm(begin, end, keys), begin, end};
}

MaskReading attention::intersect(const MaskReading &a, const MaskReading &b,
                                 int64_t keys) {
  Tensor begin = at::maximum(a.begin, b.begin);
  Tensor end = at::minimum(a.end, b.end);
  if ((begin >= end).any().item<bool>())
    return {};
  return {nameForm(begin, end, keys), begin, end};
}

Tensor attention::chooseRows(int64_t rows, int64_t columns) {
  int64_t most = std::max<int64_t>(
      2, std::min(kCompared, kMostCompared / std::max<int64_t>(columns, 1)));
  if (rows <= most)
    return at::arange(rows);
  std::mt19937_64 random(static_cast<uint64_t>(rows));
  std::vector<int64_t> chosen = {0, rows - 1};
  while (int64_t(chosen.size()) < most)
    chosen.push_back(int64_t(random() % uint64_t(rows)));
  return at::tensor(chosen, at::kLong);
}

MaskReading attention::readMask(ConstantValues &values, capture::ValueId mask,
                                int64_t queries, int64_t keys) {
  std::optional<Steps> steps = values.getSteps(mask);
  if (!steps)
    return {};
  MaskReading reading = classify(*steps, queries, keys);
  if (reading.form == MaskForm::Unknown)
    return reading;
  Tensor rows = chooseRows(queries, keys);
  Tensor found = values.getRows(mask, rows);
  if (!found.defined())
    return {};
  auto [isSeen, isLow] = readNumbers(found);
  Tensor key = at::arange(keys);
  Tensor expected = (key >= reading.begin.index_select(0, rows).unsqueeze(-1)) &
                    (key < reading.end.index_select(0, rows).unsqueeze(-1));
  if (!((isSeen == expected) & (isLow != expected)).all().item<bool>())
    throw std::logic_error("a mask's rows are not what its form says");
  return reading;
}

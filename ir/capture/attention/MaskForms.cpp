//===- MaskForms.cpp - Masks that kernels have a flag for -----------------===//
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

MaskForm attention::classify(const Steps &mask, int64_t queries, int64_t keys) {
  std::optional<VisibleKeys> visible = findVisible(mask);
  if (!visible || mask.columns() != keys ||
      (visible->begin >= visible->end).any().item<bool>())
    return MaskForm::Unknown;
  if (!(visible->begin == 0).all().item<bool>())
    return MaskForm::Unknown;
  if ((visible->end == keys).all().item<bool>())
    return MaskForm::All;
  Tensor upTo = (at::arange(queries) + 1).clamp_max(keys);
  return visible->end.size(-1) == queries &&
                 (visible->end == upTo).all().item<bool>()
             ? MaskForm::Causal
             : MaskForm::Unknown;
}

/// All rows, or some by chance, the first and the last among them.
static Tensor chooseRows(int64_t rows, int64_t columns) {
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

/// Whether a query sees a key, by its form.
static Tensor spellForm(MaskForm form, const Tensor &rows, int64_t keys) {
  Tensor key = at::arange(keys), query = rows.unsqueeze(-1);
  return form == MaskForm::Causal ? key <= query : (key >= 0).expand({1, keys});
}

MaskForm attention::readForm(ConstantValues &values, capture::ValueId mask,
                             int64_t queries, int64_t keys) {
  std::optional<Steps> steps = values.getSteps(mask);
  if (!steps)
    return MaskForm::Unknown;
  MaskForm form = classify(*steps, queries, keys);
  if (form == MaskForm::Unknown)
    return form;
  Tensor rows = chooseRows(queries, keys);
  Tensor found = values.getRows(mask, rows);
  if (!found.defined())
    return MaskForm::Unknown;
  auto [isSeen, isLow] = readNumbers(found);
  Tensor expected = spellForm(form, rows, keys);
  if (!((isSeen == expected) & (isLow != expected)).all().item<bool>())
    throw std::logic_error("a mask's rows are not what its form says");
  return form;
}

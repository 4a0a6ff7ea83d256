//===- BlockAttention.cpp - Attention of blocks of queries ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/meta/BlockAttention.h"
#include "ir/capture/meta/Plainly.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <set>

using namespace fsdp;
using namespace fsdp::meta;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

/// What a matrix unit or a vector register multiplies at once; a call of a
/// kernel costs as much as so many products of a query and a key.
static constexpr int64_t kLeastRows = 16, kLeastUnit = 8, kTile = 128;
static constexpr int64_t kCall = 4096;

static bool areAll(const Tensor &flags) { return flags.all().item<bool>(); }

/// Keys of blocks under a mask begin and end at multiples of `unit`: kernels
/// want rows of masks so, and cuDNN is right only then.
static AttentionBlock makeBlock(const MaskReading &mask, int64_t keys,
                                int64_t first, int64_t end, int64_t unit) {
  Tensor begins = mask.begin.slice(0, first, end);
  Tensor ends = mask.end.slice(0, first, end);
  AttentionBlock block{first,
                       end,
                       begins.amin().item<int64_t>(),
                       ends.amax().item<int64_t>(),
                       MaskForm::Ranges,
                       {},
                       {}};
  bool isFromFirst = areAll(begins == block.firstKey);
  if (isFromFirst && areAll(ends == block.endKey)) {
    block.form = MaskForm::All;
  } else if (isFromFirst && areAll(ends - block.firstKey ==
                                   at::arange(1, block.queries() + 1))) {
    block.form = MaskForm::Causal;
  } else {
    block.firstKey -= block.firstKey % unit;
    block.endKey = std::min(keys, (block.endKey + unit - 1) / unit * unit);
    block.begin = begins - block.firstKey;
    block.end = ends - block.firstKey;
  }
  return block;
}

/// Products of queries and keys; kernels skip what is above a diagonal.
static int64_t countProducts(const AttentionBlock &block) {
  int64_t all = block.queries() * block.keys();
  return block.form == MaskForm::Causal ? all / 2 : all;
}

std::vector<AttentionBlock> meta::chooseBlocks(const MaskReading &mask,
                                               int64_t keys) {
  Plainly plainly;
  int64_t queries = mask.begin.size(0);
  std::vector<AttentionBlock> best;
  // Less has to be worth the slices and sums.
  int64_t least = queries * keys * 9 / 10;
  std::set<int64_t> tried;
  for (int64_t count = 2; count <= kMostBlocks; ++count) {
    int64_t rows = std::max(kLeastRows, (queries + count - 1) / count);
    int64_t unit = rows >= kTile ? kTile : kLeastUnit;
    rows = (rows + unit - 1) / unit * unit;
    if (rows >= queries || !tried.insert(rows).second)
      continue;
    std::vector<AttentionBlock> blocks;
    int64_t cost = 0;
    for (int64_t first = 0; first < queries; first += rows) {
      blocks.push_back(
          makeBlock(mask, keys, first, std::min(first + rows, queries), unit));
      cost += countProducts(blocks.back());
    }
    // A few rows: the calls are all there is to save.
    if (queries > kTile)
      cost += kCall * int64_t(blocks.size());
    if (cost < least) {
      least = cost;
      best = std::move(blocks);
    }
  }
  return best;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

Tensor meta::joinByPosition(std::vector<Tensor> parts) {
  for (Tensor &part : parts)
    part = part.transpose(1, 2);
  return at::cat(parts, 1).transpose(1, 2);
}

Tensor meta::addUp(const std::vector<AttentionBlock> &blocks,
                   const std::vector<Tensor> &parts, const Tensor &like) {
  std::set<int64_t> borders = {0, like.size(2)};
  for (const AttentionBlock &block : blocks)
    borders.insert({block.firstKey, block.endKey});
  std::vector<Tensor> sums;
  for (auto it = borders.begin(); std::next(it) != borders.end(); ++it) {
    int64_t first = *it, end = *std::next(it);
    Tensor sum;
    for (size_t i = 0; i < blocks.size(); ++i) {
      int64_t start = blocks[i].firstKey;
      if (start > first || blocks[i].endKey < end)
        continue;
      Tensor part = parts[i].slice(2, first - start, end - start);
      sum = sum.defined() ? sum + part : part;
    }
    if (!sum.defined()) // which no query sees
      sum = at::zeros({like.size(0), like.size(1), end - first, like.size(3)},
                      like.options());
    sums.push_back(sum);
  }
  return joinByPosition(std::move(sums));
}

namespace {

/// What was computed for a block, with autograd's graph of that.
struct Attended {
  Tensor query, key, value, output;
};

/// What backward needs of forward.
struct Kept : torch::CustomClassHolder {
  std::vector<AttentionBlock> blocks;
  std::vector<Attended> attended;
  std::array<Tensor, 3> operands; ///< query, key, value
};

constexpr const char *kKept = "kept";

struct InBlocks : torch::autograd::Function<InBlocks> {
  static Tensor forward(AutogradContext *context, const Tensor &query,
                        const Tensor &key, const Tensor &value,
                        const std::vector<AttentionBlock> *blocks,
                        const AttendBlock *attend) {
    auto kept = c10::make_intrusive<Kept>();
    kept->blocks = *blocks;
    kept->operands = {query, key, value};
    std::vector<Tensor> outputs;
    for (const AttentionBlock &block : *blocks) {
      Attended each{cut(query, block.firstQuery, block.endQuery),
                    cut(key, block.firstKey, block.endKey),
                    cut(value, block.firstKey, block.endKey),
                    {}};
      {
        at::AutoGradMode differentiate(true);
        each.output = (*attend)(block, each.query, each.key, each.value);
      }
      outputs.push_back(each.output.detach());
      kept->attended.push_back(std::move(each));
    }
    context->saved_data[kKept] = c10::IValue::make_capsule(kept);
    return joinByPosition(std::move(outputs));
  }

  static variable_list backward(AutogradContext *context,
                                variable_list gradients) {
    auto kept = c10::static_intrusive_pointer_cast<Kept>(
        context->saved_data[kKept].toCapsule());
    std::array<std::vector<Tensor>, 3> parts;
    for (size_t i = 0; i < kept->blocks.size(); ++i) {
      const AttentionBlock &block = kept->blocks[i];
      const Attended &each = kept->attended[i];
      variable_list wanted;
      for (const Tensor &operand : {each.query, each.key, each.value})
        if (operand.requires_grad())
          wanted.push_back(operand);
      variable_list found = torch::autograd::grad(
          {each.output}, wanted,
          {gradients[0].slice(2, block.firstQuery, block.endQuery)});
      auto next = found.begin();
      for (size_t operand = 0; operand < 3; ++operand)
        if (kept->operands[operand].requires_grad())
          parts[operand].push_back(*next++);
    }
    variable_list result(5);
    if (!parts[0].empty())
      result[0] = joinByPosition(parts[0]);
    for (size_t operand : {1, 2})
      if (!parts[operand].empty())
        result[operand] =
            addUp(kept->blocks, parts[operand], kept->operands[operand]);
    return result;
  }

private:
  /// A part of an operand, differentiated by itself.
  static Tensor cut(const Tensor &whole, int64_t first, int64_t end) {
    Tensor part = whole.slice(2, first, end).detach();
    return part.requires_grad_(whole.requires_grad());
  }
};

} // namespace

Tensor meta::attendBlocks(const std::vector<AttentionBlock> &blocks,
                          const Tensor &query, const Tensor &key,
                          const Tensor &value, const AttendBlock &attend) {
  return InBlocks::apply(query, key, value, &blocks, &attend);
}

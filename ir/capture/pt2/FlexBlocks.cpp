//===- FlexBlocks.cpp - Blocks that flex_attention computes ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/pt2/FlexBlocks.h"
#include "ir/capture/meta/AttentionReader.h"
#include "ir/capture/meta/Plainly.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

using namespace fsdp;
using namespace fsdp::capture;
using at::Tensor;

/// Pairs of a mask that is compared as a whole, rather than by ranges.
static constexpr int64_t kMostCompared = int64_t(1) << 28;

/// The numbers of a table; undefined if they are not known.
static Tensor findNumbers(meta::AttentionReader &reader, const Tensor &table) {
  meta::Plainly plainly;
  return reader.findRows(table, at::arange(table.size(-2)));
}

/// Which blocks a table lists, [batch, heads, rows, columns].
static Tensor makeDense(const Tensor &counts, const Tensor &indices,
                        int64_t columns) {
  Tensor place = at::arange(indices.size(-1));
  Tensor isListed = place < counts.unsqueeze(-1);
  std::vector<int64_t> sizes = indices.sizes().vec();
  sizes.back() = columns + 1; // the last for what is not listed
  Tensor dense = at::zeros(sizes, at::kBool);
  Tensor chosen = at::where(isListed, indices.to(at::kLong),
                            at::full({}, columns, at::kLong));
  dense.scatter_(-1, chosen, true);
  return dense.narrow(-1, 0, columns);
}

namespace {

/// Of each block whether the mask lets any, and all, of it be seen.
struct Seen {
  Tensor any, all; ///< [batch, heads, rows, columns]; undefined: not known
};

/// The block of a mask of any length is larger than all.
int64_t countBlocks(int64_t length, int64_t block) {
  return (length + block - 1) / block;
}

/// Pairs beyond the lengths are like those at the end.
Tensor cutColumns(const Tensor &rows, int64_t block, bool isAll) {
  block = std::min(block, rows.size(-1));
  int64_t columns = countBlocks(rows.size(-1), block);
  Tensor padded = at::constant_pad_nd(
      rows, {0, columns * block - rows.size(-1)}, isAll ? 1 : 0);
  std::vector<int64_t> sizes = padded.sizes().vec();
  sizes.back() = columns;
  sizes.push_back(block);
  padded = padded.reshape(sizes);
  return isAll ? padded.all(-1) : padded.any(-1);
}

Seen readMask(meta::AttentionReader &reader, const Pt2FlexCall &call,
              const Tensor &mask, const meta::MaskReading &reading) {
  int64_t queries = call.query.size(2), keys = call.key.size(2);
  int64_t rows = countBlocks(queries, call.queryBlock);
  bool isKnown = reading.form != meta::MaskForm::Unknown;
  if (!isKnown && mask.defined() && queries * keys > kMostCompared)
    return {};
  std::vector<Tensor> any, all;
  for (int64_t row = 0; row < rows; ++row) {
    int64_t first = row * call.queryBlock;
    int64_t end = std::min(first + call.queryBlock, queries);
    Tensor found;
    if (!mask.defined()) {
      meta::Plainly plainly;
      found = at::ones({1, 1, 1, keys}, at::kBool);
    } else if (isKnown) {
      meta::Plainly plainly;
      Tensor key = at::arange(keys);
      found = ((key >= reading.begin.slice(0, first, end).unsqueeze(-1)) &
               (key < reading.end.slice(0, first, end).unsqueeze(-1)))
                  .view({1, 1, end - first, keys});
    } else {
      Tensor numbers;
      {
        meta::Plainly plainly;
        numbers = at::arange(first, end);
      }
      found = reader.findRows(mask, numbers);
      if (!found.defined())
        return {};
    }
    meta::Plainly plainly;
    any.push_back(cutColumns(found.any(-2), call.keyBlock, false));
    all.push_back(cutColumns(found.all(-2), call.keyBlock, true));
  }
  meta::Plainly plainly;
  return {at::stack(any, -2), at::stack(all, -2)};
}

} // namespace

void fsdp::capture::checkPt2FlexBlocks(const Pt2FlexCall &call,
                                       const Tensor &mask,
                                       const meta::MaskReading &reading) {
  meta::AttentionReader *reader = meta::getAttentionReader();
  bool hasFull = call.tables[2].defined();
  std::array<Tensor, 4> numbers;
  for (size_t i = 0; i < (hasFull ? 4 : 2); ++i) {
    const Tensor &table = call.tables[i];
    if (!table.defined() || table.dim() < 2)
      json::fail("tables of the blocks of flex_attention");
    if (!(numbers[i] = findNumbers(*reader, table)).defined())
      return;
  }
  int64_t rows = countBlocks(call.query.size(2), call.queryBlock);
  int64_t columns = countBlocks(call.key.size(2), call.keyBlock);
  bool fits = numbers[0].size(-1) >= rows && numbers[1].size(-1) >= columns;
  Seen seen = readMask(*reader, call, mask, reading);
  if (!seen.any.defined() || !fits)
    return;
  meta::Plainly plainly;
  auto listed = [&](size_t table) {
    return makeDense(numbers[table], numbers[table + 1],
                     numbers[table + 1].size(-1))
        .narrow(-2, 0, rows)
        .narrow(-1, 0, columns);
  };
  Tensor computed = listed(0);
  Tensor full = hasFull ? listed(2) : at::zeros_like(computed);
  bool leavesOut =
      (seen.any & (computed | full).logical_not()).any().item<bool>();
  bool addsPairs = (full & seen.all.logical_not()).any().item<bool>();
  if (!leavesOut && !addsPairs)
    return;
  refusePt2Node(
      ErrorId::UnsupportedRegion, call.node, "flex_attention",
      std::string("has a block_mask that ") +
          (leavesOut ? "leaves out blocks in which mask_mod lets keys be seen"
                     : "lets all keys of a block be seen where mask_mod does "
                       "not") +
          ": PyTorch computes something else on a CPU than on a GPU; make the "
          "block_mask by create_block_mask of the same mask_mod, with B and H "
          "if it depends on b and h");
}

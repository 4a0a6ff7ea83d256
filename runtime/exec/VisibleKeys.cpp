//===- VisibleKeys.cpp - Which keys a mask leaves to see ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/VisibleKeys.h"

#include "support/Vectorized.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <limits>

using namespace fsdp;

/// Queries of a tile, more where there would be too many tiles. LibTorch's
/// kernel takes 32 to 256 queries at a time.
static constexpr int64_t kTile = 64, kMostTiles = 256;
/// What the call for a block costs, in products of a query and a key.
static constexpr int64_t kCall = 4096;
/// Numbers that are looked at before anything is concluded of them.
static constexpr int64_t kPiece = 64;

namespace {

/// A floating-point format of these bits: the sign, the exponent, the mantissa.
template <typename Bits, int mantissa>
struct Format {
  static constexpr Bits kSign = Bits(Bits(1) << (sizeof(Bits) * 8 - 1));
  /// -inf, and the least number.
  static constexpr Bits kMinusInf =
      Bits(std::numeric_limits<Bits>::max() << mantissa);
  static constexpr Bits kLeast = Bits(kMinusInf - 1);

  static bool isHidden(Bits number) { return Bits(number - kLeast) <= 1; }
  /// Whether the least number vanishes beside this one. Half of it does not
  /// pass, nor does a NaN.
  static bool isClear(Bits number) {
    return number < kSign ? number < Bits(kMinusInf - kSign)
                          : number < Bits(kLeast - (Bits(1) << mantissa));
  }
};

/// Keys from `begin` up to `end`; none: of no query.
struct Range {
  int64_t begin = std::numeric_limits<int64_t>::max(), end = 0;

  void add(Range other) {
    begin = std::min(begin, other.begin);
    end = std::max(end, other.end);
  }
};

/// Whether each of so many numbers is hidden.
template <typename Bits>
[[gnu::always_inline]] inline bool areAllHidden(const Bits *numbers,
                                                int64_t count, Bits least) {
  bool hidden = true;
  for (int64_t i = 0; i < count; ++i)
    hidden &= Bits(numbers[i] - least) <= 1;
  return hidden;
}

// Variants for processors cannot be templates.
FSDP_VECTORIZED bool areHidden(const uint16_t *numbers, int64_t count,
                               uint16_t least) {
  return areAllHidden(numbers, count, least);
}
FSDP_VECTORIZED bool areHidden(const uint32_t *numbers, int64_t count,
                               uint32_t least) {
  return areAllHidden(numbers, count, least);
}
FSDP_VECTORIZED bool areHidden(const uint64_t *numbers, int64_t count,
                               uint64_t least) {
  return areAllHidden(numbers, count, least);
}

/// The first number of a row that is not hidden; `keys` if all are.
template <typename F, typename Bits>
int64_t findFirst(const Bits *row, int64_t keys) {
  int64_t at = 0;
  while (at + kPiece <= keys && areHidden(row + at, kPiece, F::kLeast))
    at += kPiece;
  while (at < keys && F::isHidden(row[at]))
    ++at;
  return at;
}

/// Behind the last one that is not.
template <typename F, typename Bits>
int64_t findEnd(const Bits *row, int64_t keys) {
  int64_t end = keys;
  while (end >= kPiece && areHidden(row + end - kPiece, kPiece, F::kLeast))
    end -= kPiece;
  while (end > 0 && F::isHidden(row[end - 1]))
    --end;
  return end;
}

template <typename F, typename Bits>
Range readRow(const Bits *row, int64_t keys) {
  int64_t first = findFirst<F>(row, keys);
  if (first == keys) {
    // Of equals, however low, each has its share.
    bool areInf = std::all_of(row, row + keys,
                              [](Bits each) { return each == F::kMinusInf; });
    return areInf ? Range{} : Range{0, keys};
  }
  int64_t end = findEnd<F>(row, keys);
  bool isClear = F::isClear(row[first]) || F::isClear(row[end - 1]);
  return isClear ? Range{first, end} : Range{0, keys};
}

/// The mask as [batch, heads, queries, keys].
struct Rows {
  explicit Rows(const at::Tensor &mask)
      : tensor(mask.dim() == 4 ? mask : mask.unsqueeze(0).unsqueeze(0)),
        // What is expanded is read once.
        batch(tensor.stride(0) == 0 ? 1 : tensor.size(0)),
        heads(tensor.stride(1) == 0 ? 1 : tensor.size(1)),
        queries(tensor.size(2)), keys(tensor.size(3)),
        isOneRow(tensor.stride(2) == 0) {}

  at::Tensor tensor;
  int64_t batch, heads, queries, keys;
  bool isOneRow;
};

/// What the tile's queries see.
template <typename F, typename Bits>
Range readTile(const Rows &rows, int64_t entry, int64_t first, int64_t end) {
  const at::Tensor &t = rows.tensor;
  const Bits *base =
      static_cast<const Bits *>(t.const_data_ptr()) + entry * t.stride(0);
  Range range;
  for (int64_t head = 0; head < rows.heads; ++head)
    for (int64_t row = first; row < (rows.isOneRow ? first + 1 : end); ++row)
      range.add(
          readRow<F>(base + head * t.stride(1) + row * t.stride(2), rows.keys));
  return range;
}

/// The fewest products in blocks of whole tiles, each call counted.
std::vector<VisibleBlock> joinTiles(const std::vector<Range> &tiles,
                                    int64_t tile, int64_t queries,
                                    int64_t keys) {
  size_t count = tiles.size();
  std::vector<int64_t> cost(count + 1, 0);
  std::vector<size_t> from(count + 1, 0);
  auto queryAt = [&](size_t i) { return std::min(int64_t(i) * tile, queries); };
  auto block = [&](size_t first, size_t end, Range range) {
    // One key, for the kernel to say what a query gets that sees none.
    if (range.end == 0)
      range = {0, 1};
    return VisibleBlock{queryAt(first), queryAt(end), range.begin, range.end};
  };
  auto products = [](const VisibleBlock &b) {
    return (b.endQuery - b.firstQuery) * (b.endKey - b.firstKey);
  };
  for (size_t end = 1; end <= count; ++end) {
    Range range;
    cost[end] = std::numeric_limits<int64_t>::max();
    for (size_t first = end; first-- > 0;) {
      range.add(tiles[first]);
      int64_t all = cost[first] + products(block(first, end, range)) + kCall;
      if (all < cost[end]) {
        cost[end] = all;
        from[end] = first;
      }
    }
  }
  // Less has to be worth the slices and sums.
  if (cost[count] > queries * keys * 9 / 10)
    return {{0, queries, 0, keys}};
  std::vector<VisibleBlock> blocks;
  for (size_t end = count; end > 0; end = from[end]) {
    Range range;
    for (size_t i = from[end]; i < end; ++i)
      range.add(tiles[i]);
    blocks.push_back(block(from[end], end, range));
  }
  std::reverse(blocks.begin(), blocks.end());
  return blocks;
}

template <typename F, typename Bits>
std::vector<std::vector<VisibleBlock>> find(const Rows &rows) {
  int64_t tile =
      std::max(kTile, (rows.queries / kMostTiles + kTile - 1) / kTile * kTile);
  int64_t tiles = (rows.queries + tile - 1) / tile;
  std::vector<Range> ranges(static_cast<size_t>(rows.batch * tiles));
  at::parallel_for(0, rows.batch * tiles, 1, [&](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i)
      ranges[size_t(i)] =
          readTile<F, Bits>(rows, i / tiles, i % tiles * tile,
                            std::min((i % tiles + 1) * tile, rows.queries));
  });
  std::vector<std::vector<VisibleBlock>> found;
  for (int64_t entry = 0; entry < rows.batch; ++entry)
    found.push_back(joinTiles(
        {ranges.begin() + entry * tiles, ranges.begin() + (entry + 1) * tiles},
        tile, rows.queries, rows.keys));
  // A batch that is expanded has as many.
  found.resize(static_cast<size_t>(rows.tensor.size(0)), found.front());
  return found;
}

} // namespace

bool fsdp::hasVisibleKeys(const at::Tensor &mask) {
  if (!mask.device().is_cpu() || !(mask.dim() == 2 || mask.dim() == 4) ||
      mask.numel() == 0 || (mask.stride(-1) != 1 && mask.size(-1) != 1))
    return false;
  at::ScalarType dtype = mask.scalar_type();
  return dtype == at::kFloat || dtype == at::kDouble ||
         dtype == at::kBFloat16 || dtype == at::kHalf;
}

std::vector<std::vector<VisibleBlock>>
fsdp::findVisible(const at::Tensor &mask) {
  TORCH_CHECK(hasVisibleKeys(mask));
  Rows rows(mask);
  switch (mask.scalar_type()) {
  case at::kDouble:
    return find<Format<uint64_t, 52>, uint64_t>(rows);
  case at::kBFloat16:
    return find<Format<uint16_t, 7>, uint16_t>(rows);
  case at::kHalf:
    return find<Format<uint16_t, 10>, uint16_t>(rows);
  default:
    return find<Format<uint32_t, 23>, uint32_t>(rows);
  }
}

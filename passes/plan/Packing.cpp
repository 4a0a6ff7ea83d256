//===- Packing.cpp - Addresses for buffers with lifetimes -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/plan/Packing.h"

#include "passes/plan/PackingSearch.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <queue>
#include <set>

using namespace fsdp;

namespace {

/// Free gaps below the top of a growing region, by address and by size.
class GapList {
public:
  int64_t allocate(int64_t bytes, int64_t alignment) {
    for (auto best = bySize.lower_bound({bytes, 0}); best != bySize.end();
         ++best) {
      auto [size, offset] = *best;
      int64_t at = roundUp(offset, alignment);
      if (at + bytes > offset + size)
        continue;
      erase(byOffset.find(offset));
      insert(offset, at - offset);
      insert(at + bytes, offset + size - (at + bytes));
      return at;
    }
    // Nothing fits: grow the gap that touches the top, or the top itself.
    int64_t offset = top;
    if (!byOffset.empty()) {
      auto last = std::prev(byOffset.end());
      if (last->first + last->second == top) {
        offset = last->first;
        erase(last);
      }
    }
    int64_t at = roundUp(offset, alignment);
    insert(offset, at - offset);
    top = at + bytes;
    return at;
  }

  void release(int64_t offset, int64_t bytes) {
    auto next = byOffset.lower_bound(offset);
    if (next != byOffset.end() && next->first == offset + bytes) {
      bytes += next->second;
      next = erase(next);
    }
    if (next != byOffset.begin()) {
      auto previous = std::prev(next);
      if (previous->first + previous->second == offset) {
        offset = previous->first;
        bytes += previous->second;
        erase(previous);
      }
    }
    insert(offset, bytes);
  }

  int64_t highest() const { return top; }

private:
  using Gaps = std::map<int64_t, int64_t>;

  void insert(int64_t offset, int64_t bytes) {
    if (bytes == 0)
      return;
    byOffset.emplace(offset, bytes);
    bySize.emplace(bytes, offset);
  }
  Gaps::iterator erase(Gaps::iterator gap) {
    bySize.erase({gap->second, gap->first});
    return byOffset.erase(gap);
  }

  Gaps byOffset;
  std::set<std::pair<int64_t, int64_t>> bySize;
  int64_t top = 0;
};

std::vector<size_t> identity(size_t count) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  return order;
}

} // namespace

Packing fsdp::packByTime(std::span<const Interval> intervals) {
  std::vector<size_t> order = identity(intervals.size());
  // Among buffers that begin together the larger first, then the longer-lived.
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const Interval &x = intervals[a], &y = intervals[b];
    if (x.first != y.first)
      return x.first < y.first;
    return x.bytes != y.bytes ? x.bytes > y.bytes : x.last > y.last;
  });
  using End = std::pair<int64_t, size_t>;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
  Packing packing;
  packing.offsets.assign(intervals.size(), 0);
  GapList gaps;
  for (size_t i : order) {
    const Interval &interval = intervals[i];
    for (; !ends.empty() && ends.top().first < interval.first; ends.pop()) {
      size_t dead = ends.top().second;
      gaps.release(packing.offsets[dead], alignUp(intervals[dead].bytes));
    }
    if (interval.bytes == 0)
      continue;
    packing.offsets[i] =
        gaps.allocate(alignUp(interval.bytes), getAlignment(interval.bytes));
    ends.emplace(interval.last, i);
  }
  packing.bytes = gaps.highest();
  return packing;
}

static Packing packInOrder(std::span<const Interval> intervals,
                           const std::vector<size_t> &order) {
  struct Placed {
    int64_t offset, end, first, last;
  };
  std::vector<Placed> placed; // by offset
  Packing packing;
  packing.offsets.assign(intervals.size(), 0);
  for (size_t i : order) {
    const Interval &interval = intervals[i];
    int64_t bytes = alignUp(interval.bytes);
    int64_t alignment = getAlignment(interval.bytes);
    if (bytes == 0)
      continue;
    int64_t top = 0, best = -1, bestGap = std::numeric_limits<int64_t>::max();
    for (const Placed &other : placed) {
      if (other.last < interval.first || interval.last < other.first)
        continue;
      int64_t at = roundUp(top, alignment), gap = other.offset - at;
      if (gap >= bytes && gap < bestGap) {
        best = at;
        bestGap = gap;
        if (gap == bytes)
          break;
      }
      top = std::max(top, other.end);
    }
    int64_t offset = best >= 0 ? best : roundUp(top, alignment);
    packing.offsets[i] = offset;
    packing.bytes = std::max(packing.bytes, offset + bytes);
    auto at = std::upper_bound(
        placed.begin(), placed.end(), offset,
        [](int64_t key, const Placed &other) { return key < other.offset; });
    placed.insert(at, {offset, offset + bytes, interval.first, interval.last});
  }
  return packing;
}

Packing fsdp::packBySize(std::span<const Interval> intervals) {
  std::vector<size_t> order = identity(intervals.size());
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const Interval &x = intervals[a], &y = intervals[b];
    if (x.bytes != y.bytes)
      return x.bytes > y.bytes;
    return x.last - x.first > y.last - y.first;
  });
  return packInOrder(intervals, order);
}

Packing fsdp::packByArea(std::span<const Interval> intervals) {
  std::vector<size_t> order = identity(intervals.size());
  auto area = [&](size_t i) {
    // Rounded down to fit: only the order matters.
    const Interval &interval = intervals[i];
    return (interval.bytes / 16) * (interval.last - interval.first + 1);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return area(a) > area(b); });
  return packInOrder(intervals, order);
}

Packing fsdp::pack(std::span<const Interval> intervals,
                   const PackingLimits &limits) {
  const int64_t bound = lowerBound(intervals);
  const int64_t enough = std::max(limits.enough, bound + bound / kEnough);
  Packing best = packByTime(intervals);
  auto keepBetter = [&](Packing other) {
    if (other.bytes < best.bytes)
      best = std::move(other);
    return best.bytes <= enough;
  };
  if (best.bytes <= enough || intervals.size() > limits.greedyBuffers ||
      keepBetter(packBySize(intervals)) || keepBetter(packByArea(intervals)))
    return best;

  PackingSearch search(intervals);
  int64_t work = limits.searchWork;
  if (search.getDescentWork() > work)
    return best;
  // Hard cases are worth more than the last thousandth of an easy one.
  auto getBudget = [&] {
    bool isHard = best.bytes > bound + bound / kHard;
    return isHard ? kHardWork * limits.searchWork : limits.searchWork;
  };
  // Mostly the bound itself is reached in a few descents; else half-way to it,
  // again and again.
  int64_t low = bound, goal = bound, share = work / 8;
  while (best.bytes > enough && work > 0) {
    if (std::optional<Packing> found = search.find(goal, share))
      best = std::move(*found);
    else if (goal > bound)
      low = goal;
    if (best.bytes - low <= bound / kEnough)
      break;
    goal = low + (best.bytes - low) / 2;
    work = getBudget() - search.getWork();
    share = work / 3 + 1;
  }
  return best;
}

int64_t fsdp::lowerBound(std::span<const Interval> intervals) {
  // A buffer counts until just after its last time.
  std::vector<std::pair<int64_t, int64_t>> changes;
  changes.reserve(2 * intervals.size());
  for (const Interval &interval : intervals) {
    changes.emplace_back(interval.first, alignUp(interval.bytes));
    changes.emplace_back(interval.last + 1, -alignUp(interval.bytes));
  }
  std::sort(changes.begin(), changes.end());
  int64_t alive = 0, highest = 0;
  for (size_t i = 0; i < changes.size(); ++i) {
    alive += changes[i].second;
    bool lastOfTime =
        i + 1 == changes.size() || changes[i + 1].first != changes[i].first;
    if (lastOfTime)
      highest = std::max(highest, alive);
  }
  return highest;
}

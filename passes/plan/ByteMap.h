//===- ByteMap.h - What each byte holds -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_PLAN_BYTEMAP_H
#define FSDP_PASSES_PLAN_BYTEMAP_H

#include "llvm/ADT/STLFunctionalExtras.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

namespace fsdp {

/// Which contents, by number, each byte of a range holds.
class ByteMap {
public:
  /// Where nothing was written.
  static constexpr unsigned kNothing = ~0u;

  struct Cell {
    int64_t end;
    unsigned contents;
  };

  /// Calls `visit(begin, end, contents)` for what lies in a range until it
  /// returns false; `kNothing` where nothing was written. Returns whether it
  /// never did.
  bool visit(int64_t begin, int64_t end,
             llvm::function_ref<bool(int64_t, int64_t, unsigned)> visit) const {
    auto it = cells.upper_bound(begin);
    if (it != cells.begin() && std::prev(it)->second.end > begin)
      --it;
    while (begin < end) {
      bool isGap = it == cells.end() || it->first > begin;
      int64_t next = it == cells.end() ? end
                     : isGap           ? it->first
                                       : it->second.end;
      next = std::min(next, end);
      if (!visit(begin, next, isGap ? kNothing : it->second.contents))
        return false;
      begin = next;
      if (!isGap)
        ++it;
    }
    return true;
  }

  /// `kNothing`: nothing from now on.
  void write(int64_t begin, int64_t end, unsigned contents) {
    if (begin >= end)
      return;
    splitAt(begin);
    splitAt(end);
    cells.erase(cells.lower_bound(begin), cells.lower_bound(end));
    if (contents != kNothing)
      cells[begin] = {end, contents};
  }

private:
  void splitAt(int64_t at) {
    auto it = cells.lower_bound(at);
    if (it == cells.begin() || (it != cells.end() && it->first == at))
      return;
    Cell &before = std::prev(it)->second;
    if (before.end > at)
      cells[at] = {std::exchange(before.end, at), before.contents};
  }

  std::map<int64_t, Cell> cells;
};

} // namespace fsdp

#endif // FSDP_PASSES_PLAN_BYTEMAP_H

//===- Blocks.cpp - A tensor's elements in blocks -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/optimize/Blocks.h"

#include "support/BlockCodes.h"

#include <algorithm>

using namespace fsdp;

std::vector<BlockPiece> fsdp::cutEvenly(int64_t elements) {
  std::vector<BlockPiece> pieces;
  for (int64_t at = 0; at < elements; at += kBlockElements)
    pieces.push_back(
        {at, std::min(kBlockElements, elements - at), at / kBlockElements});
  return pieces;
}

std::vector<BlockPiece> fsdp::cutByWhole(const std::vector<ElementRun> &runs) {
  std::vector<BlockPiece> pieces;
  for (const ElementRun &run : runs)
    for (int64_t done = 0; done < run.count;) {
      int64_t at = run.whole + done;
      int64_t count =
          std::min(run.count - done, kBlockElements - at % kBlockElements);
      pieces.push_back({run.local + done, count, at / kBlockElements});
      done += count;
    }
  return pieces;
}

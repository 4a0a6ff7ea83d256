//===- RandomRounding.cpp - Random numbers of elements --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/optimize/RandomRounding.h"

#include "support/Vectorized.h"

#include <algorithm>

using namespace fsdp;

static constexpr unsigned kLanes = 16;
/// Random numbers of 16 bits in one of Philox's blocks.
static constexpr int64_t kOfBlock = 8;

FSDP_VECTORIZED
void generate(uint64_t first, uint32_t tensor, uint32_t step, philox::Key key,
              uint32_t (&words)[4][kLanes]) {
  for (unsigned i = 0; i < kLanes; ++i) {
    words[0][i] = uint32_t(first + i);
    words[1][i] = uint32_t((first + i) >> 32);
    words[2][i] = tensor;
    words[3][i] = step;
  }
  philox::generateLanes(words, key);
}

/// 16 bits for each of `count` elements from `first` on of the model's tensor:
/// element e has half e % 2 of word e / 2 % 4 of block e / 8.
static void fillRun(int64_t first, int64_t count, uint32_t tensor,
                    uint32_t step, philox::Key key, uint16_t *to) {
  uint32_t words[4][kLanes];
  for (int64_t at = first / (kOfBlock * kLanes) * (kOfBlock * kLanes);
       at < first + count; at += kOfBlock * kLanes) {
    generate(static_cast<uint64_t>(at / kOfBlock), tensor, step, key, words);
    int64_t begin = std::max(at, first);
    int64_t end = std::min(at + kOfBlock * int64_t(kLanes), first + count);
    for (int64_t e = begin; e < end; ++e)
      to[e - first] = static_cast<uint16_t>(
          words[e / 2 % 4][(e - at) / kOfBlock] >> (e % 2 * 16));
  }
}

void fsdp::fillRandom(std::span<const ElementRun> runs, const BlockPiece &piece,
                      uint32_t step, philox::Key key, uint16_t *to) {
  std::fill(to, to + piece.count, 0);
  int64_t end = piece.local + piece.count;
  auto run =
      std::ranges::upper_bound(runs, piece.local, {}, &ElementRun::local);
  if (run != runs.begin())
    --run;
  for (; run != runs.end() && run->local < end; ++run) {
    int64_t from = std::max(piece.local, run->local);
    int64_t to_ = std::min(end, run->local + run->count);
    if (from < to_)
      fillRun(run->whole + from - run->local, to_ - from, run->tensor, step,
              key, to + (from - piece.local));
  }
}

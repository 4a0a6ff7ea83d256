//===- InTurn.cpp - Several ranks' programs on one thread -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/InTurn.h"

using namespace fsdp;

void fsdp::issueInTurn(std::span<const Turn> turns,
                       const std::function<void(size_t)> &enter) {
  for (const Turn &turn : turns)
    turn.executor->begin(turn.step, turn.recorder);
  // Programs are the same on all ranks, and so are their waits.
  for (bool isOver = false; !isOver;) {
    isOver = true;
    for (size_t i = 0; i < turns.size(); ++i) {
      enter(i);
      isOver &= !turns[i].executor->advance();
    }
  }
}

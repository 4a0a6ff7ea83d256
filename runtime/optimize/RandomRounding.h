//===- RandomRounding.h - Random numbers of elements ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_OPTIMIZE_RANDOMROUNDING_H
#define FSDP_RUNTIME_OPTIMIZE_RANDOMROUNDING_H

#include "runtime/optimize/Blocks.h"
#include "support/Philox.h"

#include <span>

namespace fsdp {

/// 16 random bits for each element of a piece, a function of the element's
/// place in the model's tensor, the tensor and the step. Padding, which is in
/// no run, has none.
void fillRandom(std::span<const ElementRun> runs, const BlockPiece &piece,
                uint32_t step, philox::Key key, uint16_t *to);

} // namespace fsdp

#endif // FSDP_RUNTIME_OPTIMIZE_RANDOMROUNDING_H

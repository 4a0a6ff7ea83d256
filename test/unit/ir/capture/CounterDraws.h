//===- CounterDraws.h - LibTorch, the program's random numbers --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Linked into a process, it makes LibTorch's CPU kernels draw what a captured
// program draws: the operators that everything random ends in take their
// definitions, with sites in the order of the calls.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_UNIT_IR_CAPTURE_COUNTERDRAWS_H
#define FSDP_TEST_UNIT_IR_CAPTURE_COUNTERDRAWS_H

#include <cstdint>

namespace fsdp::capture {

/// Lets the next random operator draw at site 0 of step 0.
void beginDraws(int64_t seed);

} // namespace fsdp::capture

#endif // FSDP_TEST_UNIT_IR_CAPTURE_COUNTERDRAWS_H

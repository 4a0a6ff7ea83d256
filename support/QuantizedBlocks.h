//===- QuantizedBlocks.h - Frozen numbers in blocks of codes ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Into blocks (BlockForm.h) and out of them (BlockNumbers.h).
//
// nf4, fp4: the scale is the greatest absolute value; a code is the one whose
// number is nearest to element / scale, of two the lower in nf4, the one nearer
// to zero in fp4. int8: the scale is the greatest absolute value / 127; a code
// is element / scale, rounded to the nearest whole number, ties to even.
//
// Coded scales are relative to the mean of the tensor's scales. A row's codes
// share the greatest absolute value of what is left of its scales; of two as
// near, a code is the lower. Elements are coded with the scale as it was.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SUPPORT_QUANTIZEDBLOCKS_H
#define FSDP_SUPPORT_QUANTIZEDBLOCKS_H

#include "support/BlockForm.h"

#include <cstdint>

namespace fsdp {

/// The mean of the scales of a tensor's blocks, which come one behind the other
/// in whole blocks. Summed in double.
class ScaleMean {
public:
  explicit ScaleMean(const BlockForm &form) : form(form) {}
  void add(const float *from, int64_t elements);
  float get() const;

private:
  BlockForm form;
  double sum = 0;
  int64_t count = 0;
};

/// Codes `elements` numbers into form.countRows(elements) rows at `to`.
/// `offset`: what coded scales are relative to. Returns the number of the first
/// element that is a NaN or infinite and has no code, or -1; of the row that it
/// lies in, and of those behind it, nothing is of use.
int64_t quantizeBlocks(const BlockForm &form, const float *from,
                       int64_t elements, float offset, uint8_t *to);

/// The numbers of the whole blocks [first, first + count) of the rows at
/// `rows`.
void dequantizeBlocks(const BlockForm &form, const uint8_t *rows, int64_t first,
                      int64_t count, float *to);

} // namespace fsdp

#endif // FSDP_SUPPORT_QUANTIZEDBLOCKS_H

//===- Permutation.h - A random order without a table -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DATA_PERMUTATION_H
#define FSDP_RUNTIME_DATA_PERMUTATION_H

#include "support/Philox.h"

#include <cstdint>

namespace fsdp {

/// A bijection of the numbers below `size`, another one for each seed and
/// epoch: a function of these and of the number alone, in constant memory.
class Permutation {
public:
  /// `size` is at most 2^62. Other things than rows have a domain of their own.
  Permutation(uint64_t size, uint64_t seed, uint64_t epoch,
              philox::Domain domain = philox::Domain::Rows);

  /// `number` is below the size.
  uint64_t operator()(uint64_t number) const;

private:
  uint64_t encrypt(uint64_t number) const;

  uint64_t size;
  unsigned halfBits = 0; ///< of the smallest even number of bits that hold size
  philox::Key key;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_PERMUTATION_H

//===- PairComparisons.h - Comparisons of positions -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A window is written `q_idx - kv_idx < 512`: a matrix of distances, each row
// another. Brought to the form `q_idx - 512 < kv_idx` it is a comparison of a
// column and a row, of which masks are read.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_PT2_PAIRCOMPARISONS_H
#define FSDP_IR_CAPTURE_PT2_PAIRCOMPARISONS_H

#include "ir/capture/meta/ModifiedAttention.h"
#include "ir/capture/pt2/Interpreter.h"

#include <unordered_map>

namespace fsdp::capture {

class PairComparisons {
public:
  /// Names of the positions of queries and keys.
  void addPositions(const std::string &query, const std::string &key,
                    const meta::PairPositions &positions);

  /// What the node compares, if it compares sums of positions and numbers in
  /// which both positions occur; nothing for others. Told of all nodes in their
  /// order; `values` has the sizes among their operands.
  std::optional<at::Tensor> run(const json::Object &node,
                                const Pt2Target &target,
                                const Pt2Interpreter &values);

private:
  /// query * q + key * k + offset, or its absolute value.
  struct Sum {
    int64_t query = 0, key = 0, offset = 0;
    bool isAbsolute = false;
  };
  std::optional<Sum> readOperand(const json::Object &node, size_t index,
                                 const Pt2Interpreter &values) const;
  at::Tensor compare(const Sum &sum, llvm::StringRef relation) const;

  at::Tensor query, key;
  std::unordered_map<std::string, Sum> sums;
};

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_PT2_PAIRCOMPARISONS_H

//===- IndexBounds.h - Which inputs are places in tables --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A token that its vocabulary does not have is an error of the data, and a
// kernel that finds it can name neither input nor row; a GPU's ends the
// process. What the host gives a program is looked at before it is used.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_SESSION_INDEXBOUNDS_H
#define FSDP_RUNTIME_SESSION_INDEXBOUNDS_H

#include "plan/plan_generated.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace fsdp {

/// What elements of an input are taken for: rows of an embedding, classes of a
/// loss, places along a dim.
struct IndexBound {
  int64_t least, greatest;
  std::optional<int64_t> other; ///< also allowed: it counts for nothing
  std::string reader; ///< "aten::embedding of model.embed_tokens (model.py:5)"
  /// Elements from `first` on, so many, in their order. Others are free.
  std::vector<std::pair<uint64_t, uint64_t>> runs;
};

/// Those of a plan's inputs, as far as elements reach the operators that read
/// them as indices unchanged: through views, casts, copies and padding.
class IndexBounds {
public:
  /// Of what rank `rank` reads.
  IndexBounds(const plan::PlanT &plan, int rank);

  /// Throws fsdp::Error (DataType) with input, row, value and bound if an
  /// element of `bytes`, a value of the input, is out of range. `nameRow` says
  /// for a row of the first dim which it is: "row 3 of 'train.safetensors'".
  void check(const plan::InputT &input, std::span<const std::byte> bytes,
             const std::function<std::string(uint64_t)> &nameRow) const;

  /// Empty if nothing is known.
  const std::vector<IndexBound> &of(const plan::InputT &input) const;

private:
  std::map<const plan::InputT *, std::vector<IndexBound>> bounds;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_SESSION_INDEXBOUNDS_H

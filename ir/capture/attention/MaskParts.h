//===- MaskParts.h - Masks that say several things at once ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_ATTENTION_MASKPARTS_H
#define FSDP_IR_CAPTURE_ATTENTION_MASKPARTS_H

#include "ir/capture/attention/MaskForms.h"

#include <functional>
#include <set>

namespace fsdp::attention {

/// Takes a mask of true and false apart into what all have to let a key be
/// seen.
class MaskParts {
public:
  /// Of attention of so many queries to so many keys.
  MaskParts(const capture::JointGraph &graph, ConstantValues &values,
            int64_t queries, int64_t keys)
      : graph(graph), values(values), producers(graph), queries(queries),
        keys(keys) {}

  /// Whether a part, which depends on data, is understood; nothing: it is to be
  /// taken apart further. Null stands for what no operator makes.
  using Take = std::function<std::optional<bool>(const capture::Node *node,
                                                 capture::ValueId part)>;

  /// Whether all parts are understood: those that depend on no data let all
  /// keys be seen or are of a form that is known.
  bool takeApart(capture::ValueId mask, const Take &take);

  /// What the parts that depend on no data say together.
  meta::MaskReading getWithin() const;

private:
  bool isMoved(const capture::Node &node, capture::ValueId value) const;
  bool restrict(capture::ValueId value);

  const capture::JointGraph &graph;
  ConstantValues &values;
  Producers producers;
  int64_t queries, keys;
  std::set<capture::ValueId> seen;
  meta::MaskReading within;
};

} // namespace fsdp::attention

#endif // FSDP_IR_CAPTURE_ATTENTION_MASKPARTS_H

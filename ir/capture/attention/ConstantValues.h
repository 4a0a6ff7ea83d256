//===- ConstantValues.h - What depends on no data ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_ATTENTION_CONSTANTVALUES_H
#define FSDP_IR_CAPTURE_ATTENTION_CONSTANTVALUES_H

#include "ir/capture/attention/Producers.h"
#include "ir/capture/attention/Steps.h"

#include <unordered_map>

namespace fsdp::attention {

/// Computes values of a joint graph, which may grow meanwhile, that depend
/// neither on inputs nor on states that can change: whole ones of few elements,
/// and larger ones by the pieces of their rows.
class ConstantValues {
public:
  /// A value of more elements than `most` is never made whole. With
  /// `readsStates`, states that are fixed count as constant.
  explicit ConstantValues(const capture::JointGraph &graph,
                          int64_t most = int64_t(1) << 22,
                          bool readsStates = true)
      : graph(graph), most(most), readsStates(readsStates), producers(graph) {}

  /// Whether `complete`, the graph with its results, writes a state that was
  /// taken to be constant.
  bool hasReadChanged(const capture::JointGraph &complete) const;

  /// From here on the value counts as constant, and is `data`. Before anything
  /// is asked for.
  void assume(capture::ValueId value, const at::Tensor &data) {
    assumed[value] = data;
  }

  bool isConstant(capture::ValueId value);

  /// The tensor, on the CPU; undefined if it is not constant or too large.
  at::Tensor getWhole(capture::ValueId value);

  /// Its pieces; nothing if it is not constant, or of a form that has none.
  std::optional<Steps> getSteps(capture::ValueId value);

  /// The rows of these numbers, along the last but one dim, computed by all
  /// operators as they are; undefined if that cannot be done.
  at::Tensor getRows(capture::ValueId value, const at::Tensor &rows);

private:
  using ValueId = capture::ValueId;
  using Node = capture::Node;

  at::Tensor findData(ValueId value);
  /// The operator that makes it; null for what is given.
  const Node *findProducer(ValueId value) {
    return assumed.contains(value) ? nullptr : producers.find(value);
  }
  bool isSmall(ValueId value) const;
  std::optional<at::Tensor> findFill(const Node &node) const;
  at::Tensor call(const Node &node, ValueId result,
                  const std::function<at::Tensor(ValueId)> &get);
  std::optional<Steps> computeSteps(ValueId value);
  /// Of a slice of `source`.
  std::optional<Steps> sliceSteps(const Node &node, ValueId value,
                                  ValueId source);
  std::optional<Steps> computePointwise(const Node &node, ValueId value);
  /// Of a value with a number: "lt", which is on the right.
  struct Comparison {
    std::string_view how;
    ValueId value;
    int64_t number;
  };
  std::optional<Comparison> readComparison(const Node &node);
  /// Of a comparison of `row - column`, `column - row` or the absolute of
  /// either, integers, with a number; nothing for others.
  std::optional<Steps> compareDifference(const Node &node,
                                         const std::vector<int64_t> &sizes);
  /// Whether it has one number for each column, or one for each row.
  bool isColumn(ValueId value) const;
  bool isRow(ValueId value) const;
  at::Tensor sliceRows(const Node &node, ValueId source,
                       const at::Tensor &rows);
  at::Tensor computeRows(const Node &node, ValueId value,
                         const at::Tensor &rows);

  const capture::JointGraph &graph;
  int64_t most;
  bool readsStates;
  Producers producers;
  std::unordered_map<ValueId, at::Tensor> assumed;
  std::unordered_map<ValueId, bool> constant;
  std::unordered_map<ValueId, at::Tensor> whole;
  std::unordered_map<ValueId, at::Tensor> ofFile; ///< undefined: not fixed
  std::unordered_map<ValueId, std::optional<Steps>> steps;
};

} // namespace fsdp::attention

#endif // FSDP_IR_CAPTURE_ATTENTION_CONSTANTVALUES_H

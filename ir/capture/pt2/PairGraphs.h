//===- PairGraphs.h - Graphs of one score -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// flex_attention is given graphs that say what becomes of one score, of one
// query and one key, and whether the pair takes part. All they may do is work
// on numbers and read buffers at places that these are computed of, so that
// they run on the scores of all pairs at once, as tensors that broadcast.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_PT2_PAIRGRAPHS_H
#define FSDP_IR_CAPTURE_PT2_PAIRGRAPHS_H

#include "ir/capture/meta/ModifiedAttention.h"
#include "ir/capture/pt2/Interpreter.h"

#include <unordered_set>

namespace fsdp::capture {

/// A graph whose inputs are, one number each, the score (of some), batch, head,
/// query and key; then buffers. Refers to the archive's JSON.
class Pt2PairGraph {
public:
  /// Throws Error for a graph that does what is not supported, `call` being the
  /// node that it belongs to.
  Pt2PairGraph(const json::Object &call, const json::Object &graph,
               bool takesScore);

  /// Names of values that the score goes into.
  const std::unordered_set<std::string> &getOfScore() const { return ofScore; }

  const json::Object &getGraph() const { return graph; }

  /// The value of that name (of several: one tensor each), computed for these
  /// pairs; of values that the score does not go into if `scores` is undefined.
  std::vector<at::Tensor>
  compute(const std::vector<std::string> &names, const at::Tensor &scores,
          const meta::PairPositions &positions,
          const std::vector<c10::IValue> &buffers) const;

  /// What the graph returns.
  const std::string &getResult() const { return result; }

private:
  /// What a node is to a pair's numbers.
  enum class Role {
    Whole,    ///< reads buffers alone
    Numbers,  ///< works on numbers, each by itself
    Read,     ///< reads a buffer at places
    Constant, ///< makes a number, whatever it is given
  };
  Role classify(const json::Object &node, const Pt2Target &target) const;

  const json::Object &call, &graph;
  bool takesScore;
  std::string result;
  void bindInputs(const at::Tensor &scores,
                  const meta::PairPositions &positions,
                  const std::vector<c10::IValue> &buffers,
                  Pt2Interpreter &interpreter) const;
  void alignNumbers(const json::Object &node, const Pt2Target &target,
                    Pt2Interpreter &interpreter) const;

  std::unordered_set<std::string> ofPair, ofScore;
  std::unordered_map<const json::Object *, std::pair<Pt2Target, Role>> roles;
};

/// A graph that adds to the score what does not depend on it, multiplies it by
/// a number, and makes it -inf where a condition says so.
struct Pt2ScoreSum {
  double factor = 1;
  /// Values that are added, and how often.
  std::vector<std::pair<std::string, double>> terms;
  /// Conditions, and what they are where the score stays.
  std::vector<std::pair<std::string, bool>> conditions;
};

/// Nothing for graphs that do something else.
std::optional<Pt2ScoreSum> readPt2ScoreSum(const Pt2PairGraph &graph);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_PT2_PAIRGRAPHS_H

//===- ChainsTest.cpp - Random groups of operators ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chains of operators whose formulas are exact give LibTorch's bits, whatever
// rows and columns they have; where a chain has none, it is refused.
//
//===----------------------------------------------------------------------===//

#include "KernelGraph.h"
#include "Samples.h"

#include <gtest/gtest.h>

#include <random>

using namespace fsdp;
using namespace fsdp::test;

namespace {

class Chain {
public:
  explicit Chain(unsigned seed) : random(seed) {
    for (int64_t &size : shape)
      size = 1 + pick(9);
    shape[2] *= 2;
    nodes.push_back(give(shape));
  }

  void run(size_t steps) {
    // What comes from outside alone is no kernel.
    nodes.push_back(graph.op("aten.neg", {nodes.front()}));
    for (size_t i = 0; i < steps; ++i)
      add();
    std::vector<Node> results{nodes.back()};
    for (size_t i = 1; i + 1 < nodes.size(); ++i)
      if (!isView[i] && pick(4) == 0)
        results.push_back(nodes[i]);
    if (isView.back())
      results.front() = graph.op("aten.abs", {nodes.back()});
    isBuilt = graph.build(results).has_value();
    if (isBuilt)
      expectSame(graph, results);
  }

  KernelGraph graph;
  bool isBuilt = false;

private:
  int64_t pick(int64_t count) {
    return std::uniform_int_distribution<int64_t>(0, count - 1)(random);
  }

  at::ScalarType pickType() { return listFloats()[pick(3)]; }

  /// From outside: dims of size 1 and missing ones, contiguous, transposed or
  /// cut.
  Node give(Sizes sizes, bool broadcasts = false) {
    if (broadcasts)
      for (int64_t &size : sizes)
        if (pick(3) == 0)
          size = 1;
    if (broadcasts && pick(2) == 0)
      sizes.erase(sizes.begin(),
                  sizes.begin() + pick(int64_t(sizes.size()) + 1));
    size_t rank = sizes.size();
    if (rank >= 2 && pick(3) == 0) {
      std::swap(sizes[0], sizes[1]);
      return graph.input(sample(sizes, pickType()).transpose(0, 1));
    }
    if (rank >= 1 && pick(3) == 0) {
      int64_t size = sizes.back();
      sizes.back() += 3;
      return graph.input(
          sample(sizes, pickType()).slice(int64_t(rank) - 1, 1, size + 1));
    }
    return graph.input(sample(sizes, pickType()));
  }

  /// The latest, or one before it of the same shape.
  Node pickLike(const Node &node) {
    for (int i = 0; i < 4; ++i) {
      const Node &other = nodes[1 + pick(int64_t(nodes.size()) - 1)];
      if (other.tensor.sizes() == node.tensor.sizes())
        return other;
    }
    return node;
  }

  void keep(Node node, bool view = false) {
    nodes.push_back(std::move(node));
    isView.resize(nodes.size());
    isView.back() = view;
  }

  void add();
  void addUnary(const Node &x);
  void addBinary(const Node &x);
  void addColumns(const Node &x);

  std::mt19937 random;
  Sizes shape{0, 0, 0};
  std::vector<Node> nodes;
  std::vector<bool> isView{false, false};
};

} // namespace

void Chain::addUnary(const Node &x) {
  switch (pick(4)) {
  case 0:
    return keep(graph.op("aten.relu", {x}));
  case 1:
    return keep(graph.op("aten.abs", {x}));
  case 2:
    return keep(graph.op("aten.clamp", {x}, {{"min", -1.0}, {"max", 1.5}}));
  default:
    return keep(
        graph.op("aten._to_copy", {x},
                 {{"dtype", "dtype:" + std::to_string(int(pickType()))}}));
  }
}

void Chain::addBinary(const Node &x) {
  Node other = pick(2) == 0 ? pickLike(x) : give(x.tensor.sizes().vec(), true);
  static const char *const kNames[] = {"aten.add.Tensor", "aten.sub.Tensor",
                                       "aten.mul.Tensor", "aten.maximum",
                                       "aten.div.Tensor"};
  if (pick(6) == 0) {
    Node mask = graph.op("aten.lt.Tensor", {x, other});
    return keep(graph.op("aten.where.self", {mask, other, x}));
  }
  std::string name = kNames[pick(5)];
  keep(pick(2) == 0 ? graph.op(name, {x, other}) : graph.op(name, {other, x}));
}

void Chain::addColumns(const Node &x) {
  int64_t last = x.tensor.dim() - 1;
  if (last < 0)
    return addUnary(x);
  int64_t size = x.tensor.size(last);
  if (pick(2) == 0 || size < 2) {
    Node most = graph.op("aten.amax", {x},
                         {{"dim", Sizes{-1}}, {"keepdim", pick(2) == 0}});
    keep(most);
    if (most.tensor.dim() == x.tensor.dim())
      keep(graph.op("aten.sub.Tensor", {x, most}));
    return;
  }
  auto slice = [&](int64_t start, int64_t end) {
    return graph.op("aten.slice.Tensor", {x},
                    {{"dim", last}, {"start", start}, {"end", end}});
  };
  int64_t middle = 1 + pick(size - 1);
  Node right = graph.op("aten.neg", {slice(middle, size)});
  keep(graph.op("aten.cat", {std::vector<Node>{right, slice(0, middle)}},
                {{"dim", int64_t(-1)}}));
}

void Chain::add() {
  Node x = nodes.back();
  switch (pick(8)) {
  case 0:
  case 1:
    return addUnary(x);
  case 2:
    return addColumns(x);
  case 3: {
    if (!x.tensor.is_contiguous() || x.tensor.dim() != 3)
      return addBinary(x);
    Sizes sizes{x.tensor.size(0) * x.tensor.size(1), x.tensor.size(2)};
    return keep(graph.op("aten.view", {x}, {{"size", sizes}}), true);
  }
  default:
    return addBinary(x);
  }
}

TEST(ChainsTest, GiveLibTorchsBits) {
  int built = 0, count = 300;
  for (int seed = 0; seed < count && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Chain chain(static_cast<unsigned>(seed));
    chain.run(size_t(3 + seed % 4));
    built += chain.isBuilt ? 1 : 0;
  }
  EXPECT_GT(built, count * 9 / 10);
}

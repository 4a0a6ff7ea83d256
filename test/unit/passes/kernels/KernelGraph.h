//===- KernelGraph.h - Operators by LibTorch and by a kernel ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_PASSES_KERNELS_KERNELGRAPH_H
#define FSDP_TEST_UNIT_PASSES_KERNELS_KERNELGRAPH_H

#include "../partition/RunOperator.h"

#include "passes/kernels/Program.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"

#include <ATen/core/Tensor.h>

#include <map>

namespace fsdp::test {

/// A value of the program and what LibTorch computed for it.
struct Node {
  mlir::Value value; ///< null for None
  at::Tensor tensor;
};

/// What a tensor argument is: a tensor, a list of them, or None.
struct NodeArgument {
  NodeArgument(Node node) : nodes{std::move(node)} {}
  NodeArgument(std::vector<Node> list) : nodes(std::move(list)), isList(true) {}
  std::vector<Node> nodes;
  bool isList = false;
};

/// A program that grows operator by operator, each computed by LibTorch at
/// once.
class KernelGraph {
public:
  KernelGraph();

  Node input(const at::Tensor &tensor);
  /// A number that Python gave.
  Node wrapped(double value);
  /// A tensor of one number throughout that the program holds.
  Node constant(double value, const std::vector<int64_t> &shape,
                at::ScalarType dtype);
  std::vector<Node> all(const std::string &name,
                        const std::vector<NodeArgument> &tensors,
                        const std::vector<StaticArgument> &statics = {});
  /// The first result.
  Node op(const std::string &name, const std::vector<NodeArgument> &tensors,
          const std::vector<StaticArgument> &statics = {}) {
    return all(name, tensors, statics).front();
  }

  /// The same, of an operator that LibTorch has no kernel for here: it gives
  /// `made`.
  std::vector<Node> declare(const std::string &name,
                            const std::vector<NodeArgument> &tensors,
                            const std::vector<StaticArgument> &statics,
                            const std::vector<at::Tensor> &made);

  /// Of all operators; null: there is none, for the reason `why`.
  std::optional<KernelOfOps> build(const std::vector<Node> &results);
  std::string why;

  /// What the program computes, with the strides of results.
  std::vector<at::Tensor> run(const KernelOfOps &kernel,
                              const std::vector<Node> &results);
  /// An operator that is none of LibTorch's, whose results are `made`.
  template <typename Op, typename... Arguments>
  std::vector<Node> add(const std::vector<at::Tensor> &made,
                        Arguments &&...arguments) {
    auto op = Op::create(builder, builder.getUnknownLoc(),
                         std::forward<Arguments>(arguments)...);
    ops.push_back(op);
    std::vector<Node> nodes;
    for (size_t i = 0; i < made.size(); ++i)
      nodes.push_back({op->getResult(i), made[i]});
    return nodes;
  }

  /// The last operator.
  mlir::Operation *last() { return ops.back(); }

private:
  mlir::Type toType(at::ScalarType dtype);
  mlir::Type toType(const at::Tensor &tensor);
  mlir::Attribute toAttribute(const StaticArgument &argument);

  mlir::MLIRContext &context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::OpBuilder builder;
  mlir::func::FuncOp function;
  std::vector<mlir::Operation *> ops;
  std::vector<Node> inputs;
};

/// How far results may be apart: units in the last place of their type, and a
/// number. `share`: of bf16 and halves, how many may differ at all, since f32
/// inside of both is seldom on two sides of a border.
struct Tolerance {
  double ulps = 0, absolute = 0, share = 0.03;
};

/// Builds the kernel of all operators; both have to give the same.
void expectSame(KernelGraph &graph, const std::vector<Node> &results,
                Tolerance tolerance = {});
/// No program says it, and `why` has these words.
void expectRefused(KernelGraph &graph, const std::vector<Node> &results,
                   const std::string &words);

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_PASSES_KERNELS_KERNELGRAPH_H

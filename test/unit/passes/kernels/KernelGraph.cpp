//===- KernelGraph.cpp - Operators by LibTorch and by a kernel ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "KernelGraph.h"

#include "ir/aten/Aten.h"
#include "ir/fsdp/Fsdp.h"
#include "kernels/Interpreter.h"
#include "plan/Kernels.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/full.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>

#include <gtest/gtest.h>

#include <cmath>

using namespace fsdp;
using namespace fsdp::test;
using namespace mlir;

/// One for all, since making one takes longer than a test.
static MLIRContext &getContext() {
  static MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<func::FuncDialect, FsdpDialect, aten::AtenDialect>();
  return context;
}

KernelGraph::KernelGraph() : context(getContext()), builder(&context) {
  Location loc = builder.getUnknownLoc();
  module = ModuleOp::create(loc);
  builder.setInsertionPointToEnd(module->getBody());
  function =
      func::FuncOp::create(builder, loc, "f", builder.getFunctionType({}, {}));
  builder.setInsertionPointToEnd(function.addEntryBlock());
}

Type KernelGraph::toType(at::ScalarType dtype) {
  switch (dtype) {
  case at::kFloat:
    return builder.getF32Type();
  case at::kBFloat16:
    return builder.getBF16Type();
  case at::kHalf:
    return builder.getF16Type();
  case at::kDouble:
    return builder.getF64Type();
  case at::kBool:
    return builder.getI1Type();
  case at::kInt:
    return builder.getI32Type();
  case at::kByte:
    return builder.getIntegerType(8, false);
  default:
    return builder.getI64Type();
  }
}

Type KernelGraph::toType(const at::Tensor &tensor) {
  return aten::getTensorType(
      SmallVector<int64_t>(tensor.sizes().begin(), tensor.sizes().end()),
      SmallVector<int64_t>(tensor.strides().begin(), tensor.strides().end()),
      toType(tensor.scalar_type()));
}

Attribute KernelGraph::toAttribute(const StaticArgument &argument) {
  return std::visit(
      [&](const auto &value) -> Attribute {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, bool>) {
          return builder.getBoolAttr(value);
        } else if constexpr (std::is_same_v<Value, int64_t>) {
          return builder.getI64IntegerAttr(value);
        } else if constexpr (std::is_same_v<Value, double>) {
          return builder.getF64FloatAttr(value);
        } else if constexpr (std::is_same_v<Value, std::string>) {
          if (value.starts_with("dtype:"))
            return TypeAttr::get(
                toType(at::ScalarType(std::stoi(value.substr(6)))));
          return builder.getStringAttr(value == "format:0" ? "contiguous"
                                                           : value);
        } else if constexpr (std::is_same_v<Value, std::vector<bool>>) {
          return builder.getBoolArrayAttr(
              SmallVector<bool>(value.begin(), value.end()));
        } else {
          return builder.getI64ArrayAttr(value);
        }
      },
      argument.value);
}

Node KernelGraph::input(const at::Tensor &tensor) {
  Node node{
      function.getBody().addArgument(toType(tensor), builder.getUnknownLoc()),
      tensor};
  inputs.push_back(node);
  return node;
}

Node KernelGraph::wrapped(double value) {
  auto type = RankedTensorType::get({}, builder.getF64Type());
  auto constant = ConstantOp::create(builder, builder.getUnknownLoc(), type,
                                     DenseElementsAttr::get(type, value),
                                     builder.getUnitAttr());
  at::Tensor tensor = at::scalar_tensor(value, at::kDouble);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return {constant.getResult(), tensor};
}

Node KernelGraph::constant(double value, const std::vector<int64_t> &shape,
                           at::ScalarType dtype) {
  auto type = RankedTensorType::get(shape, toType(dtype));
  Attribute number =
      isa<FloatType>(type.getElementType())
          ? Attribute(builder.getFloatAttr(type.getElementType(), value))
          : Attribute(
                builder.getIntegerAttr(type.getElementType(), int64_t(value)));
  auto constant =
      ConstantOp::create(builder, builder.getUnknownLoc(), type,
                         DenseElementsAttr::get(type, number), UnitAttr());
  return {constant.getResult(), at::full(shape, value, dtype)};
}

std::vector<Node> KernelGraph::all(const std::string &name,
                                   const std::vector<NodeArgument> &tensors,
                                   const std::vector<StaticArgument> &statics) {
  std::vector<test::TensorArgument> given;
  size_t next = 0;
  for (const aten::Argument &argument : aten::lookupSchema(name)->arguments) {
    if (!argument.isTensor() || next == tensors.size())
      continue;
    const NodeArgument &each = tensors[next++];
    test::TensorArgument bound{argument.name.str(), {}, each.isList};
    for (const Node &node : each.nodes)
      bound.tensors.push_back(node.tensor);
    if (each.isList || each.nodes.front().value)
      given.push_back(bound);
  }
  return declare(name, tensors, statics, runOperator(name, given, statics));
}

std::vector<Node>
KernelGraph::declare(const std::string &name,
                     const std::vector<NodeArgument> &tensors,
                     const std::vector<StaticArgument> &statics,
                     const std::vector<at::Tensor> &made) {
  SmallVector<SmallVector<Value>> lists;
  for (const NodeArgument &each : tensors) {
    lists.emplace_back();
    for (const Node &node : each.nodes)
      lists.back().push_back(node.value);
  }
  SmallVector<aten::TensorArgument> operands;
  for (auto [each, list] : llvm::zip_equal(tensors, lists))
    operands.push_back(each.isList ? aten::TensorArgument(list)
                                   : aten::TensorArgument(list.front()));
  SmallVector<NamedAttribute> attributes;
  for (const StaticArgument &argument : statics)
    attributes.push_back(
        builder.getNamedAttr(argument.name, toAttribute(argument)));
  SmallVector<Type> types;
  for (const at::Tensor &tensor : made)
    types.push_back(tensor.defined() ? toType(tensor)
                                     : Type(builder.getNoneType()));
  Operation *op = aten::buildAtenOp(builder, builder.getUnknownLoc(), name,
                                    operands, attributes, types);
  ops.push_back(op);
  std::vector<Node> nodes;
  for (size_t i = 0; i < made.size(); ++i)
    nodes.push_back({op->getResult(i), made[i]});
  return nodes;
}

std::optional<KernelOfOps>
KernelGraph::build(const std::vector<Node> &results) {
  SmallVector<Value> values;
  for (const Node &node : results)
    values.push_back(node.value);
  return buildKernel(ops, values, &why);
}

static bool isRowSum(const plan::KernelProgramT &program, size_t operand) {
  return program.operands[operand]->written != -1 &&
         takesRowSum(program, operand);
}

/// Runs parts as the table of operations says: sums over rows are added up part
/// by part.
static void runParts(const plan::KernelProgramT &program,
                     std::vector<at::Tensor> &tensors) {
  bool flat = isFlat(program);
  int64_t count = flat ? int64_t(columnsOf(program)) : rowsOf(program);
  int64_t piece = (count + kKernelParts - 1) / kKernelParts;
  std::map<size_t, at::Tensor> totals;
  for (int64_t part = 0; part < kKernelParts; ++part) {
    std::vector<void *> places;
    std::map<size_t, at::Tensor> sums;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (isRowSum(program, i))
        sums[i] = at::zeros({tensors[i].numel()}, at::kFloat);
      places.push_back(isRowSum(program, i) ? sums[i].data_ptr()
                                            : tensors[i].data_ptr());
    }
    int64_t begin = std::min(count, part * piece);
    interpret(program, places, begin, std::min(count, begin + piece));
    for (auto &[i, sum] : sums)
      totals[i] = part == 0 ? sum : totals[i] + sum;
  }
  for (auto &[i, total] : totals)
    tensors[i].copy_(total.view(tensors[i].sizes()));
}

std::vector<at::Tensor> KernelGraph::run(const KernelOfOps &kernel,
                                         const std::vector<Node> &results) {
  std::vector<at::Tensor> tensors, written;
  size_t number = 0;
  for (const auto &operand : kernel.program.operands) {
    if (operand->written != -1) {
      const at::Tensor &like = results[written.size()].tensor;
      tensors.push_back(
          at::empty_strided(like.sizes(), like.strides(), like.options()));
      written.push_back(tensors.back());
      continue;
    }
    Value value = kernel.inputs[number++];
    auto it = llvm::find_if(
        inputs, [&](const Node &node) { return node.value == value; });
    EXPECT_NE(it, inputs.end());
    tensors.push_back(it->tensor);
  }
  EXPECT_EQ(number, kernel.inputs.size());
  EXPECT_EQ(written.size(), results.size());
  runParts(kernel.program, tensors);
  return written;
}

/// The distance between numbers of the type at `value`.
static double ulpOf(double value, at::ScalarType dtype) {
  int digits = dtype == at::kBFloat16 ? 8 : dtype == at::kHalf ? 11 : 24;
  int least = dtype == at::kHalf ? -14 : -126;
  int exponent = value == 0 ? least : std::max(std::ilogb(value), least);
  return std::ldexp(1.0, exponent - digits + 1);
}

static void expectClose(const at::Tensor &got, const at::Tensor &want,
                        Tolerance tolerance, const std::string &text) {
  at::Tensor a = got.to(at::kDouble).contiguous(),
             b = want.to(at::kDouble).contiguous();
  const double *x = a.data_ptr<double>(), *y = b.data_ptr<double>();
  int64_t wrong = 0, unequal = 0;
  for (int64_t i = 0; i < b.numel(); ++i) {
    bool isSame = x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]));
    double allowed =
        tolerance.absolute + tolerance.ulps * ulpOf(y[i], want.scalar_type());
    unequal += isSame ? 0 : 1;
    if (isSame || std::abs(x[i] - y[i]) <= allowed)
      continue;
    if (++wrong > 3)
      break;
    ADD_FAILURE() << "element " << i << " is " << x[i] << ", LibTorch says "
                  << y[i] << ": "
                  << std::abs(x[i] - y[i]) / ulpOf(y[i], want.scalar_type())
                  << " ulps\n"
                  << text;
  }
  if (want.scalar_type() != at::kFloat)
    EXPECT_LE(double(unequal), 2 + tolerance.share * double(b.numel()))
        << "of " << b.numel() << " elements differ\n"
        << text;
}

void fsdp::test::expectSame(KernelGraph &graph,
                            const std::vector<Node> &results,
                            Tolerance tolerance) {
  std::optional<KernelOfOps> kernel = graph.build(results);
  ASSERT_TRUE(kernel) << graph.why;
  std::string text = toText(kernel->program);
  std::vector<at::Tensor> got = graph.run(*kernel, results);
  for (size_t i = 0; i < results.size(); ++i) {
    SCOPED_TRACE("result " + std::to_string(i));
    expectClose(got[i], results[i].tensor, tolerance, text);
  }
}

void fsdp::test::expectRefused(KernelGraph &graph,
                               const std::vector<Node> &results,
                               const std::string &words) {
  EXPECT_FALSE(graph.build(results));
  EXPECT_NE(graph.why.find(words), std::string::npos) << graph.why;
}

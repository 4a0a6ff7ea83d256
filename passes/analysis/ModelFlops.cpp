//===- ModelFlops.cpp - What a model computes -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/ModelFlops.h"

#include "mlir/IR/BuiltinTypes.h"

#include "llvm/ADT/StringSwitch.h"

using namespace fsdp;
using namespace mlir;

static RankedTensorType typeOf(Value value) {
  return dyn_cast<RankedTensorType>(value.getType());
}

/// Of the operand; null where there is no such one.
static RankedTensorType operandOf(Operation &op, unsigned index) {
  return index < op.getNumOperands() ? typeOf(op.getOperand(index))
                                     : RankedTensorType();
}

static double elementsOf(RankedTensorType type) {
  return static_cast<double>(type.getNumElements());
}

static int64_t lastOf(RankedTensorType type) {
  return type.getRank() == 0 ? 1 : type.getShape().back();
}

/// `first` is the number of the left factor.
static double countProduct(Operation &op, unsigned first) {
  RankedTensorType left = operandOf(op, first), result;
  if (op.getNumResults() != 0)
    result = typeOf(op.getResult(0));
  if (!left || !result)
    return 0;
  double flops = 2 * elementsOf(result) * static_cast<double>(lastOf(left));
  // Groups that lie one behind the other along what is summed.
  if (left.getRank() == 2 && result.getRank() == 3)
    flops /= static_cast<double>(std::max<int64_t>(result.getDimSize(0), 1));
  return flops;
}

/// Multiply-adds of one convolution are those of each input's or output's
/// element with a kernel; `input` is the number of the input.
static double countConvolution(Operation &op, unsigned input,
                               RankedTensorType output) {
  RankedTensorType in = operandOf(op, input), weight = operandOf(op, input + 1);
  if (!in || !weight || !output || weight.getRank() == 0)
    return 0;
  auto transposed = op.getAttrOfType<BoolAttr>("transposed");
  bool isTransposed = transposed && transposed.getValue();
  double kernel =
      elementsOf(weight) /
      static_cast<double>(std::max<int64_t>(weight.getDimSize(0), 1));
  return 2 * kernel * elementsOf(isTransposed ? in : output);
}

/// Of both products; `query` is its number, and keys and values follow.
static double countAttention(Operation &op, unsigned query) {
  RankedTensorType q = operandOf(op, query), k = operandOf(op, query + 1),
                   v = operandOf(op, query + 2);
  if (!q || !k || !v || q.getRank() != 4 || k.getRank() != 4)
    return 0;
  double scores = elementsOf(q) /
                  static_cast<double>(std::max<int64_t>(lastOf(q), 1)) *
                  static_cast<double>(k.getDimSize(2));
  return 2 * scores * static_cast<double>(lastOf(q) + lastOf(v));
}

/// The same of operands [batch, length, heads, width] or [positions, heads,
/// width]: of all keys of a row, whichever are seen.
static double countFlash(Operation &op, unsigned query) {
  RankedTensorType q = operandOf(op, query), v = operandOf(op, query + 2);
  auto keys = op.getAttrOfType<IntegerAttr>("max_k");
  if (!q || !v || !keys || q.getRank() < 3)
    return 0;
  double scores = elementsOf(q) /
                  static_cast<double>(std::max<int64_t>(lastOf(q), 1)) *
                  static_cast<double>(keys.getInt());
  return 2 * scores * static_cast<double>(lastOf(q) + lastOf(v));
}

static double countFlops(Operation &op) {
  StringRef name = op.getName().getStringRef();
  if (!name.consume_front("aten."))
    return 0;
  if (name.starts_with("_scaled_dot_product_"))
    return name.contains("backward") ? 2 * countAttention(op, 1)
                                     : countAttention(op, 0);
  if (name.starts_with("_flash_attention_"))
    return name.contains("backward") ? 2 * countFlash(op, 1)
                                     : countFlash(op, 0);
  if (name == "convolution_backward") {
    double flops = 0;
    for (unsigned i : {0u, 1u})
      if (i < op.getNumResults() && typeOf(op.getResult(i)) &&
          !op.getResult(i).use_empty())
        flops += countConvolution(op, 1, operandOf(op, 0));
    return flops;
  }
  if (name.starts_with("convolution"))
    return op.getNumResults() == 0
               ? 0
               : countConvolution(op, 0, typeOf(op.getResult(0)));
  int first = llvm::StringSwitch<int>(name)
                  .Cases({"mm", "bmm", "mv", "dot", "vdot", "linear", "matmul",
                          "_int_mm", "_scaled_mm", "_grouped_mm"},
                         0)
                  .Cases({"addmm", "addmv", "baddbmm"}, 1)
                  .Default(-1);
  return first < 0 ? 0 : countProduct(op, static_cast<unsigned>(first));
}

double fsdp::countModelFlops(func::FuncOp program) {
  double flops = 0;
  program.walk([&](Operation *op) { flops += countFlops(*op); });
  return flops;
}

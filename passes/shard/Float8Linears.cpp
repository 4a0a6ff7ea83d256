//===- Float8Linears.cpp - Linear layers in eight bits --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arithmetic of torchao's float8 training (torchao/float8, Float8LinearConfig):
// dynamic scales by tensor, or by row as its recipe "rowwise".
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/analysis/Decisions.h"
#include "passes/analysis/ModulePaths.h"
#include "passes/analysis/NamePatterns.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/States.h"
#include "passes/analysis/Targets.h"
#include "passes/analysis/TensorOps.h"
#include "passes/shard/Float8Layers.h"
#include "passes/shard/Float8Products.h"
#include "passes/shard/LowPrecision.h"
#include "support/Pattern.h"

#include "llvm/ADT/StringSet.h"

#include <limits>
#include <map>
#include <set>

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_FLOAT8LINEARS
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

/// What GPUs' products want sizes to be multiples of.
constexpr int64_t kSizeMultiple = 16;

/// Whether kernels of eight bits take such a weight on all processors. Zeros
/// that would fill up others add nothing to what a product sums; the CPU needs
/// none.
bool isEven(RankedTensorType weight) {
  return llvm::all_of(weight.getShape(),
                      [](int64_t size) { return size % kSizeMultiple == 0; });
}

/// Those of a product, behind the bias if it has one.
Value getLeft(const LayerProduct &product) {
  return product.op->getOperand(product.op->getNumOperands() - 2);
}
Value getRight(const LayerProduct &product) {
  return product.op->getOperand(product.op->getNumOperands() - 1);
}

/// Rewrites the products of one program.
class Float8Rewriter {
public:
  Float8Rewriter(Float8Attr told, bool readsInOrder)
      : told(told), products(told.getRecipe(), readsInOrder, madeCasts) {}

  /// Before products of any layer are rewritten.
  void note(const LinearLayer &layer) {
    for (const LayerProduct &product : layer.products)
      if (product.kind == LinearProduct::Output)
        inputs.insert({layer.path, Matrix(getLeft(product)).base});
  }

  void rewrite(const LinearLayer &layer, const LayerProduct &product) {
    TensorOps ops(product.op);
    unsigned count = product.op->getNumOperands();
    Matrix left(getLeft(product)), right(getRight(product));
    bool isForward = product.kind == LinearProduct::Output;
    if (product.kind != LinearProduct::WeightGradient && told.getAllGather())
      right.base = getParameter(right.base);
    bool isLeftGradient = product.kind == LinearProduct::InputGradient ||
                          (product.kind == LinearProduct::WeightGradient &&
                           !isInput(layer, left.base));
    bool isRightGradient =
        product.kind == LinearProduct::WeightGradient && !isLeftGradient;
    auto name = [&](bool isGradient, StringRef other) {
      return isGradient ? StringRef("gradient") : other;
    };
    StringRef otherRight =
        product.kind == LinearProduct::WeightGradient ? "input" : "weight";
    Float8Value a = products.quantize(ops, left, /*summed=*/1, isLeftGradient,
                                      name(isLeftGradient, "input"));
    Float8Value b = products.quantize(ops, right, /*summed=*/0, isRightGradient,
                                      name(isRightGradient, otherRight));
    Value result = products.multiply(
        ops, a, b, getTensor(product.op->getResult(0)), isForward);
    if (isForward && count == 3)
      result = ops.make("aten.add.Tensor", {result, product.op->getOperand(0)},
                        {}, getTensor(product.op->getResult(0)));
    product.op->getResult(0).replaceAllUsesWith(result);
    SmallVector<Value> operands(product.op->getOperands());
    product.op->erase();
    for (Value operand : operands)
      eraseDead(operand);
  }

  /// Lists the casts that were made.
  void describe(ModuleOp module) const { madeCasts.appendTo(module, "float8"); }

private:
  /// Views and casts for the product alone, which would be readers of a weight.
  static void eraseDead(Value value) {
    for (Operation *op = value.getDefiningOp(); op && isOpTriviallyDead(op);
         op = value.getDefiningOp()) {
      if (op->getNumOperands() == 0)
        return;
      value = op->getOperand(0);
      op->erase();
    }
  }

  static Value getParameter(Value value) {
    while (Operation *op = value.getDefiningOp())
      value = op->getOperand(0);
    return value;
  }

  /// Of products for a weight's gradient one factor is an input of the layer.
  bool isInput(const LinearLayer &layer, Value base) const {
    return inputs.contains({layer.path, base});
  }

  Float8Attr told;
  llvm::DenseSet<std::pair<StringRef, Value>> inputs;
  CastList madeCasts;
  Float8Products products;
};

struct Float8Linears final : fsdp::impl::Float8LinearsBase<Float8Linears> {
  void runOnOperation() override {
    told = getSetting<Float8Attr>(getOperation());
    readsInOrder = getTarget(getOperation()).readsFloat8InOrder;
    auto parallel = getSetting<ParallelAttr>(getOperation());
    together = parallel.getTp() * parallel.getCp();
    if (told.getModules() && failed(run(getOperation())))
      signalPassFailure();
  }

private:
  LogicalResult run(ModuleOp module) {
    StateTable states(module);
    for (func::FuncOp func : getPrograms(module))
      if (failed(rewrite(func, states)))
        return failure();
    for (StringRef pattern : getTexts(told.getModules()))
      if (!used.contains(pattern))
        return module.emitError("the pattern '")
               << pattern << "' of float8's modules matches no linear layer"
               << suggestNames(pattern, std::vector<std::string>(paths.begin(),
                                                                 paths.end()));
    if (isDone)
      return success();
    return module.emitError("expected a linear layer that can multiply numbers "
                            "of eight bits among those of float8's modules, "
                            "found none; of '")
           << obstacle.first << "', " << obstacle.second;
  }

  bool isChosen(const LinearLayer &layer) const {
    return findAround(
               layer.path,
               [&](StringRef at) { return matchesAny(told.getModules(), at); })
        .has_value();
  }

  /// Why a layer that was chosen stays; empty: it does not.
  std::string getObstacle(const LinearLayer &layer) const {
    StateOp weight = layer.weight;
    RankedTensorType type = weight.getGlobalType();
    Type element = type.getElementType();
    if (!element.isF32() && !element.isBF16() && !element.isF16())
      return "its weight is neither f32 nor bf16 nor f16";
    if (told.getRecipe() == Float8Recipe::Mxfp8) {
      if (std::string found = getObstacleOfBlocks(layer); !found.empty())
        return found;
    } else if (!told.getPad() && !isEven(type)) {
      return "the sizes of its weight are no multiples of 16; pad_inner_dim: "
             "true takes any";
    }
    return readsInOrder ? getObstacleOfKernels(layer) : "";
  }

  /// Blocks are whole, on each of the ranks that compute a step together.
  std::string getObstacleOfBlocks(const LinearLayer &layer) const {
    int64_t multiple = kScaleBlock * together;
    for (const LayerProduct &product : layer.products)
      if (int64_t summed = getTensor(getRight(product)).getDimSize(0);
          summed % multiple != 0)
        return "one of its products sums " + std::to_string(summed) +
               " numbers, and mxfp8 a multiple of " + std::to_string(multiple);
    return {};
  }

  /// What GPUs' kernels want (LibTorch's ScaledBlas.cpp).
  std::string getObstacleOfKernels(const LinearLayer &layer) const {
    // Ranks that compute a step together may have parts of each.
    int64_t multiple = kSizeMultiple * together;
    for (const LayerProduct &product : layer.products) {
      RankedTensorType right = getTensor(getRight(product)),
                       result = getTensor(product.op->getResult(0));
      if (int64_t summed = right.getDimSize(0); summed % multiple != 0)
        return "one of its products sums " + std::to_string(summed) +
               " numbers, and GPUs' sum a multiple of " +
               std::to_string(multiple);
      if (int64_t columns = right.getDimSize(1); columns % multiple != 0)
        return "one of its products has " + std::to_string(columns) +
               " columns, and GPUs' have a multiple of " +
               std::to_string(multiple);
      if (told.getRecipe() != Float8Recipe::Tensorwise &&
          !result.getElementType().isBF16())
        return "its products are no bfloat16, which GPUs' products of rows and "
               "blocks are";
    }
    return {};
  }

  LogicalResult rewrite(func::FuncOp func, const StateTable &states) {
    auto isWanted = [&](const LinearLayer &layer) {
      return isChosen(layer) && getObstacle(layer).empty();
    };
    FailureOr<SmallVector<LinearLayer>> layers =
        findLinearLayers(func, states, isWanted);
    if (failed(layers))
      return failure();
    Float8Rewriter rewriter(told, readsInOrder);
    SmallVector<std::pair<const LinearLayer *, LayerProduct>> products;
    for (const LinearLayer &layer : *layers) {
      paths.insert(layer.path);
      for (StringRef pattern : getTexts(told.getModules()))
        if (findAround(layer.path, [&](StringRef at) {
              return matchesPattern(pattern.str(), at.str());
            }))
          used.insert(pattern);
      if (!isChosen(layer))
        continue;
      explain(func, layer);
      if (std::string found = getObstacle(layer); !found.empty()) {
        obstacle = {layer.path, std::move(found)};
        continue;
      }
      isDone = true;
      rewriter.note(layer);
      for (const LayerProduct &product : layer.products)
        products.push_back({&layer, product});
    }
    // A cast stands in front of the first product that reads it.
    llvm::stable_sort(products, [](const auto &a, const auto &b) {
      return a.second.op->isBeforeInBlock(b.second.op);
    });
    for (auto &[layer, product] : products)
      rewriter.rewrite(*layer, product);
    rewriter.describe(getOperation());
    return success();
  }

  void explain(func::FuncOp func, const LinearLayer &layer) const {
    if (!wantsRemarks(func))
      return;
    Location loc = layer.products.front().op->getLoc();
    std::string obstacle = getObstacle(layer);
    if (obstacle.empty())
      remark::passed(loc, nameDecision("float8", "LinearInFloat8", func))
          << "'" + layer.path + "' multiplies numbers of eight bits"
          << remark::reason("{0}", "float8's modules name it");
    else
      remark::missed(loc, nameDecision("float8", "LinearAsItIs", func))
          << "'" + layer.path + "' multiplies as it did"
          << remark::reason("{0}", obstacle);
  }

  Float8Attr told;
  bool readsInOrder = false;
  int64_t together = 1;                         ///< ranks that compute a step
  llvm::StringSet<> used;                       ///< patterns that match a layer
  std::set<std::string> paths;                  ///< of all linear layers
  std::pair<std::string, std::string> obstacle; ///< a layer's that stays
  bool isDone = false;
};

} // namespace

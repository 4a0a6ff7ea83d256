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

/// A zero has a scale as well (torchao's EPS).
constexpr double kLeastMaximum = 1e-12;
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

/// A tensor in eight bits, and what it is to be multiplied by.
struct Float8Value {
  Value data;
  Value inverse; ///< a number, or one for each row or column
};

/// Rewrites the products of one program.
class Float8Rewriter {
public:
  Float8Rewriter(func::FuncOp func, Float8Attr told, bool readsInOrder)
      : func(func), told(told),
        byRow(told.getRecipe() == Float8Recipe::Rowwise),
        readsInOrder(readsInOrder),
        e4m3(Float8E4M3FNType::get(func.getContext())),
        e5m2(Float8E5M2Type::get(func.getContext())),
        f32(Float32Type::get(func.getContext())) {}

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
    Float8Value a = quantize(ops, left, /*summed=*/1, isLeftGradient,
                             name(isLeftGradient, "input"));
    Float8Value b = quantize(ops, right, /*summed=*/0, isRightGradient,
                             name(isRightGradient, otherRight));
    Value result =
        multiply(ops, a, b, getTensor(product.op->getResult(0)), isForward);
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

  /// `value` in eight bits, and its scale; what sums over dim `summed` of it
  /// has one of its own if scales are by row.
  Float8Value quantize(TensorOps &ops, Matrix value, int64_t summed,
                       bool isGradient, StringRef name) {
    Type element = isGradient && !byRow ? Type(e5m2) : Type(e4m3);
    int64_t dim = value.isTransposed ? 1 - summed : summed;
    Float8Value &made = casts[{value.base, element, byRow ? dim : -1}];
    if (!made.data)
      made = cast(ops, value.base, element, dim, name);
    // The base is in row-major order.
    bool isInOrder = value.isTransposed == (summed == 0);
    Value data = made.data;
    if (readsInOrder && !isInOrder)
      data =
          value.isTransposed ? turn(ops, data) : ops.transpose(turn(ops, data));
    else if (value.isTransposed)
      data = ops.transpose(data);
    return {data, byRow && value.isTransposed ? ops.transpose(made.inverse)
                                              : made.inverse};
  }

  /// A copy of the transpose, in row-major order, once.
  Value turn(TensorOps &ops, Value data) {
    Value &made = turned[data];
    if (!made)
      made = ops.copy(ops.transpose(data));
    return made;
  }

  /// What `value` is a reshape of, both in row-major order.
  static Value getOrigin(Value value) {
    while (Operation *op = value.getDefiningOp()) {
      StringRef made = op->getName().getStringRef();
      if ((made != "aten.view" && made != "aten._unsafe_view") ||
          !aten::isContiguous(getTensor(op->getOperand(0))))
        break;
      value = op->getOperand(0);
    }
    return value;
  }

  Float8Value cast(TensorOps &ops, Value source, Type element, int64_t dim,
                   StringRef name) {
    source = ops.copy(source);
    ArrayRef<int64_t> shape = getTensor(source).getShape();
    // Where ranks have parts of a sequence, which rows of all are no part of,
    // what travels for these is cast already.
    if (!byRow)
      source = getOrigin(source);
    RankedTensorType type = getTensor(source);
    madeCasts.add(name, type.getElementType(), element);
    SmallVector<int64_t> scales;
    if (byRow) {
      scales.assign(type.getShape());
      scales[dim] = 1;
    }
    OpBuilder &at = ops.get();
    auto numbers = RankedTensorType::get(scales, f32);
    Value amax =
        AmaxOp::create(at, ops.getLoc(), numbers, source,
                       byRow ? at.getI64IntegerAttr(dim) : IntegerAttr());
    // By row as torchao's round_scales_to_power_of_2.
    Value scale = ScaleOp::create(
        at, ops.getLoc(), numbers, amax, TypeAttr::get(element),
        at.getF64FloatAttr(kLeastMaximum), byRow ? at.getUnitAttr() : nullptr);
    Value inverse = ops.make("aten.reciprocal", {scale}, {}, numbers);
    Value code = EncodeOp::create(
        at, ops.getLoc(), RankedTensorType::get(type.getShape(), element),
        source, scale);
    return {ops.view(code, shape), inverse};
  }

  /// Forward's results may be summed faster, with fewer digits between, as
  /// torchao's gemm_config_output says.
  Value multiply(TensorOps &ops, Float8Value a, Float8Value b,
                 RankedTensorType type, bool isForward) {
    auto plain = RankedTensorType::get(type.getShape(), type.getElementType());
    if (!byRow || readsInOrder) {
      Builder &builder = ops.get();
      SmallVector<NamedAttribute> arguments{builder.getNamedAttr(
          "out_dtype", TypeAttr::get(type.getElementType()))};
      if (readsInOrder && isForward)
        arguments.push_back(
            builder.getNamedAttr("use_fast_accum", builder.getBoolAttr(true)));
      return ops.make("aten._scaled_mm", {a.data, b.data, a.inverse, b.inverse},
                      arguments, plain);
    }
    auto wide = RankedTensorType::get(type.getShape(), f32);
    Value product =
        ops.make("aten.mm", {widen(ops, a.data), widen(ops, b.data)}, {}, wide);
    for (Value inverse : {a.inverse, b.inverse})
      product = ops.make("aten.mul.Tensor", {product, inverse}, {}, wide);
    return ops.cast(product, type.getElementType());
  }

  /// In f32, strides kept.
  Value widen(TensorOps &ops, Value value) {
    RankedTensorType type = getTensor(value);
    return ops.make(
        "aten._to_copy", {value}, ops.type(f32),
        aten::getTensorType(type.getShape(), aten::getStrides(type), f32));
  }

  func::FuncOp func;
  Float8Attr told;
  bool byRow;
  bool readsInOrder; ///< products want what they sum to be contiguous
  FloatType e4m3, e5m2, f32;
  llvm::DenseSet<std::pair<StringRef, Value>> inputs;
  llvm::DenseMap<std::tuple<Value, Type, int64_t>, Float8Value> casts;
  llvm::DenseMap<Value, Value> turned;
  CastList madeCasts;
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
    if (!told.getPad() && !isEven(type))
      return "the sizes of its weight are no multiples of 16; pad_inner_dim: "
             "true takes any";
    return readsInOrder ? getObstacleOfKernels(layer) : "";
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
      if (told.getRecipe() == Float8Recipe::Rowwise &&
          !result.getElementType().isBF16())
        return "its products are no bfloat16, which GPUs' products of rows are";
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
    Float8Rewriter rewriter(func, told, readsInOrder);
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

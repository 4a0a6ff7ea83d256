//===- WidenProducts.cpp - Gradients in float32 from their products on ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gradients that are computed in bf16 and reduced in f32 are cast in between: a
// kernel that reads and writes all of them, of what a product had in f32 and
// rounded. LibTorch's products for GPUs write f32 if they are told to.
//
//===----------------------------------------------------------------------===//

#include "ir/aten/Matchers.h"
#include "passes/Passes.h"
#include "passes/analysis/Decisions.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/States.h"
#include "passes/analysis/Targets.h"
#include "passes/analysis/TensorOps.h"
#include "passes/analysis/Views.h"
#include "passes/kernels/PeakLimit.h"
#include "support/Format.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_WIDENPRODUCTS
#include "passes/Passes.h.inc"
} // namespace fsdp

/// Products, and what they are called where they are told a type.
static constexpr std::pair<StringLiteral, StringLiteral> kProducts[] = {
    {"aten.bmm", "aten.bmm.dtype"}, {"aten.mm", "aten.mm.dtype"}};

static constexpr StringLiteral kScaledProduct = "aten._scaled_mm";

static StringRef findWideName(Operation *op) {
  for (auto [name, wide] : kProducts)
    if (getName(op) == name)
      return wide;
  // With scales of rows or blocks results are bf16 (LibTorch's ScaledBlas.cpp).
  auto isNumber = [](Value scale) { return getTensor(scale).getRank() == 0; };
  bool isScaled = getName(op) == kScaledProduct && op->getNumOperands() == 4 &&
                  llvm::all_of(op->getOperands().drop_front(2), isNumber);
  return isScaled ? StringRef(kScaledProduct) : StringRef();
}

/// Of products in eight bits the others are kept.
static SmallVector<NamedAttribute> getWideArguments(Operation *op,
                                                    Builder &builder) {
  SmallVector<NamedAttribute> arguments{
      builder.getNamedAttr("out_dtype", TypeAttr::get(builder.getF32Type()))};
  constexpr StringLiteral fast = "use_fast_accum";
  if (getName(op) == kScaledProduct)
    if (Attribute told = aten::getStaticArgument(op, fast))
      arguments.push_back(builder.getNamedAttr(fast, told));
  return arguments;
}

namespace {

/// A product, and what makes its result f32.
struct WideGradient {
  Operation *product;
  /// Views and one cast, each of which reads the one before and nobody else
  /// does; the last ones may be a kernel's.
  SmallVector<Operation *> steps;
  KernelOp kernel; ///< that does nothing else; null if there is none
  Value gradient;  ///< what the last step gives, in the program
};

} // namespace

static bool isPlainView(Operation *op) {
  return isView(op) && aten::lookupSchema(op) && op->getNumOperands() == 1 &&
         getElementTypeOrSelf(op->getOperand(0)) ==
             getElementTypeOrSelf(op->getResult(0));
}

/// Whether it is a cast of bf16 or f16 to f32, of the same strides.
static bool isWideningCast(Operation *op) {
  if (!aten::isPlainCast(op))
    return false;
  RankedTensorType from = getTensor(op->getOperand(0)),
                   to = getTensor(op->getResult(0));
  Type element = from.getElementType();
  return (element.isBF16() || element.isF16()) && to.getElementType().isF32() &&
         aten::getStrides(from) == aten::getStrides(to);
}

/// What comes of `value`, as far as each step is all that reads the one before.
static Value followSteps(Value value, SmallVector<Operation *> &steps) {
  while (value.hasOneUse()) {
    Operation *reader = *value.user_begin();
    if (!isPlainView(reader) && !isWideningCast(reader))
      break;
    steps.push_back(reader);
    value = reader->getResult(0);
  }
  return value;
}

/// Whether it is a sum over micro-batches as the first of these begins it.
static bool beginsSum(OpOperand &use, const StateTable &states) {
  auto program = dyn_cast<func::FuncOp>(use.getOwner()->getParentOp());
  StateOp state;
  if (program && isa<func::ReturnOp>(use.getOwner()))
    state = states.lookup(program.getResultAttrOfType<FlatSymbolRefAttr>(
        use.getOperandNumber(), kStateAttr));
  return state && state.getRole() == Role::Gradient;
}

/// Whether it goes to a reduction of gradients, or to a running sum of one.
static bool isReduced(Value value, const StateTable &states) {
  return llvm::any_of(value.getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (auto start = dyn_cast<CollectiveOpInterface>(user))
      return start.getPurpose() == Purpose::Gradient;
    if (auto sum = dyn_cast<AccumulateOp>(user))
      return sum.getOf().has_value();
    // Into one tensor with others.
    bool packs = isa<PackOp>(user) || getName(user) == "aten._chunk_cat";
    return ((packs || isView(user)) && isReduced(user->getResult(0), states)) ||
           beginsSum(use, states);
  });
}

static std::optional<WideGradient> findGradient(Operation *product,
                                                const StateTable &states) {
  if (findWideName(product).empty())
    return std::nullopt;
  WideGradient found{product, {}, {}, product->getResult(0)};
  found.gradient = followSteps(found.gradient, found.steps);
  if (found.gradient.hasOneUse()) {
    auto kernel = dyn_cast<KernelOp>(*found.gradient.user_begin());
    if (kernel && kernel.getInputs().size() == 1 &&
        kernel.getOutputs().size() == 1) {
      Value made = followSteps(kernel.getBlock().getArgument(0), found.steps);
      if (made != kernel.getYielded()[0])
        return std::nullopt;
      found.kernel = kernel;
      found.gradient = kernel.getOutputs()[0];
    }
  }
  if (llvm::none_of(found.steps, isWideningCast) ||
      !isReduced(found.gradient, states))
    return std::nullopt;
  return found;
}

static SmallVector<WideGradient> findGradients(func::FuncOp program,
                                               const StateTable &states) {
  SmallVector<WideGradient> all;
  for (Operation &op : program.getBody().front())
    if (std::optional<WideGradient> found = findGradient(&op, states))
      all.push_back(std::move(*found));
  return all;
}

/// The product that takes its place.
static Operation *widenProduct(const WideGradient &found) {
  Operation *product = found.product;
  TensorOps ops(product);
  Type f32 = ops.get().getF32Type();
  auto widen = [&](Value value) { return getTensor(value).clone(f32); };
  SmallVector<aten::TensorArgument> factors;
  for (Value factor : product->getOperands())
    factors.push_back(factor);
  Value value = ops.make(findWideName(product), factors,
                         getWideArguments(product, ops.get()),
                         cast<RankedTensorType>(widen(product->getResult(0))));
  Operation *wide = value.getDefiningOp();
  for (Operation *step : found.steps) {
    if (isWideningCast(step))
      continue;
    Operation *view = repeatOn(ops.get(), step, value);
    view->getResult(0).setType(widen(step->getResult(0)));
    value = view->getResult(0);
  }
  Value gradient = found.gradient;
  gradient.replaceAllUsesWith(value);
  SmallVector<Operation *> unread =
      llvm::filter_to_vector(found.steps, [&](Operation *step) {
        return step->getBlock() == product->getBlock();
      });
  if (KernelOp kernel = found.kernel)
    kernel.erase();
  for (Operation *step : llvm::reverse(unread))
    step->erase();
  product->erase();
  return wide;
}

/// Of `products`, in the order of the program, the number of the last one that
/// stands at op number `time` or before it, and so may be alive there.
static size_t findAlive(func::FuncOp program, ArrayRef<Operation *> products,
                        int64_t time) {
  size_t number = 0;
  int64_t now = 0;
  for (Operation &op : program.getBody().front()) {
    if (now++ > time)
      break;
    if (number + 1 < products.size() && products[number + 1] == &op)
      ++number;
  }
  return number;
}

static void tellWidened(func::FuncOp program, Operation *product) {
  auto bytes = static_cast<uint64_t>(
      aten::getStorageBytes(getTensor(product->getResult(0))) / 2);
  remark::passed(product->getLoc(), nameDecision("kernels", "Widened", program))
      << "the product writes its gradient in float32, in which it is "
         "reduced: " +
             formatBytes(bytes) + " before the cast are in no memory"
      << remark::reason("{0}", "kernels: on");
}

namespace {
struct WidenProducts : fsdp::impl::WidenProductsBase<WidenProducts> {
  void runOnOperation() override {
    StateTable states(getOperation());
    if (getSetting<StepAttr>(getOperation()).getKernels() &&
        getTarget(getOperation()).widensProducts)
      for (func::FuncOp program : getPrograms(getOperation()))
        if (!findGradients(program, states).empty())
          widen(program, states);
  }

  /// All but those near points that would be higher than the program was.
  static void widen(func::FuncOp program, const StateTable &states) {
    PeakLimit limit(program);
    DenseSet<size_t> left;
    constexpr size_t kMostTries = 16;
    for (size_t i = 0; i < kMostTries; ++i) {
      SmallVector<Operation *> products;
      SmallVector<size_t> numbers;
      for (auto [number, each] :
           llvm::enumerate(findGradients(program, states)))
        if (!left.contains(number)) {
          products.push_back(widenProduct(each));
          numbers.push_back(number);
        }
      if (products.empty())
        return;
      HighestPoint highest = findHighest(program);
      if (highest.bytes <= limit.bytes() && limit.holds(program)) {
        for (Operation *product : products)
          tellWidened(program, product);
        return;
      }
      left.insert(numbers[findAlive(program, products, highest.time)]);
      limit.restore(program);
    }
  }
};
} // namespace

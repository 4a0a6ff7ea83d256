//===- AddProducts.cpp - Products add to what they are added to -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The gradient of what several layers read is a sum of products. LibTorch's
// addmm adds a product to a matrix while it writes it, in the matrix's place,
// so that neither the product nor another sum is in memory.
//
//===----------------------------------------------------------------------===//

#include "passes/kernels/AddProducts.h"

#include "ir/aten/Matchers.h"
#include "passes/analysis/TensorOps.h"
#include "passes/analysis/Views.h"

using namespace mlir;
using namespace fsdp;

static bool isSum(Operation *op) {
  return getName(op) == "aten.add.Tensor" && op->getNumOperands() == 2 &&
         aten::getStaticNumber(op, "alpha") == 1;
}

/// The product that `value` is, or is a view of, if nobody else reads it.
static Operation *findProduct(Value value) {
  while (value.hasOneUse()) {
    Operation *op = value.getDefiningOp();
    if (op && getName(op) == "aten.mm")
      return op;
    value = getReshapedSource(value);
    if (!value)
      break;
  }
  return nullptr;
}

/// `value` as a matrix of `type`, perhaps by looking through views; else what
/// all of these are views of.
static Value findMatrix(Value value, RankedTensorType type) {
  while (value.getType() != type) {
    Value source = getReshapedSource(value);
    if (!source)
      break;
    value = source;
  }
  return value;
}

/// Whether `value`, or a view of it, is read by `reader` and by nobody behind
/// `place`.
static bool diesAt(Value value, Operation *place, Operation *reader) {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    if (llvm::any_of(user->getResults(), [&](OpResult result) {
          return getViewSource(result) == value;
        }))
      return llvm::all_of(user->getResults(), [&](Value view) {
        return diesAt(view, place, reader);
      });
    return user == reader || user->isBeforeInBlock(place);
  });
}

namespace {

/// A sum of which one operand is a product.
struct Match {
  Operation *sum, *product;
  Value matrix; ///< that the product is added to, as an operand of the sum
};

} // namespace

/// What `value` is a view of; null if it is none.
static Value getSource(Value value) {
  auto result = dyn_cast<OpResult>(value);
  return result ? getViewSource(result) : Value();
}

static bool isThere(Value value, Operation *place) {
  Operation *maker = value.getDefiningOp();
  return maker && maker->isBeforeInBlock(place);
}

static bool isViewOf(Value value, Value root) {
  while (value && value != root)
    value = getSource(value);
  return value == root;
}

static bool canAdd(const Match &match) {
  auto type = getTensor(match.product->getResult(0));
  if (!llvm::all_equal(match.sum->getOperandTypes()) ||
      match.matrix.getType() != match.sum->getResult(0).getType() ||
      !aten::isContiguous(getTensor(match.matrix)) ||
      getTensor(match.matrix).getElementType() != type.getElementType())
    return false;
  Value matrix = findMatrix(match.matrix, type);
  Value root = matrix;
  while (Value source = getReshapedSource(root))
    root = source;
  // All of what an operator made, so that there is a place to write to.
  Operation *maker = root.getDefiningOp();
  if (!maker || getSource(root) ||
      !(aten::lookupSchema(maker) || isa<KernelOp>(maker)) ||
      !isThere(matrix, match.product))
    return false;
  // Where both factors and the sum are the same memory nothing is in place.
  return diesAt(root, match.product, match.sum) &&
         llvm::none_of(match.product->getOperands(),
                       [&](Value factor) { return isViewOf(factor, root); });
}

/// The later of both operands goes into the other, so that it has been made.
static std::optional<Match> find(Operation *sum) {
  std::optional<Match> found;
  for (unsigned i : {0, 1}) {
    Operation *product = findProduct(sum->getOperand(i));
    Match match{sum, product, sum->getOperand(1 - i)};
    if (product && canAdd(match) &&
        (!found || found->product->isBeforeInBlock(product)))
      found = match;
  }
  return found;
}

/// `value` and what it is a view of, as far as nobody reads them.
static void dropViews(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!op->use_empty() || !isView(op))
      break;
    value = getViewSource(op->getResult(0));
    op->erase();
  }
}

static void add(const Match &match) {
  auto type = getTensor(match.product->getResult(0));
  TensorOps ops(match.product);
  Value matrix = ops.view(findMatrix(match.matrix, type), type.getShape());
  Value into = ops.make(
      "aten.addmm",
      {matrix, match.product->getOperand(0), match.product->getOperand(1)}, {},
      type);
  ops.moveTo(match.sum);
  Value sum = match.sum->getResult(0);
  sum.replaceAllUsesWith(ops.view(into, getTensor(sum).getShape()));
  SmallVector<Value> unread(match.sum->getOperands());
  match.sum->erase();
  for (Value value : unread)
    dropViews(value);
  match.product->erase();
}

SmallVector<Location> fsdp::addProducts(func::FuncOp program) {
  SmallVector<Operation *> sums;
  for (Operation &op : program.getBody().front())
    if (isSum(&op))
      sums.push_back(&op);
  SmallVector<Location> products;
  for (Operation *sum : sums)
    if (std::optional<Match> match = find(sum)) {
      products.push_back(match->product->getLoc());
      add(*match);
    }
  return products;
}

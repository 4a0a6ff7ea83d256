//===- Float8Layers.cpp - Linear layers and their products ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/shard/Float8Layers.h"

#include "ir/aten/Matchers.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/SourcePlace.h"
#include "passes/analysis/States.h"
#include "passes/analysis/TensorBuilders.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace fsdp;

static bool transposes(Operation *op) {
  if (getName(op) == "aten.t")
    return true;
  if (std::optional<SmallVector<int64_t>> order = aten::matchPermute(op))
    return *order == SmallVector<int64_t>{1, 0};
  if (getName(op) != "aten.transpose.int")
    return false;
  auto dim = [&](StringRef name) {
    auto value = cast<IntegerAttr>(aten::getStaticArgument(op, name));
    return (value.getInt() + 2) % 2;
  };
  return dim("dim0") != dim("dim1");
}

Matrix::Matrix(Value value) : base(value) {
  for (Operation *op = base.getDefiningOp();
       op && getTensor(base).getRank() == 2 && transposes(op);
       op = base.getDefiningOp()) {
    base = op->getOperand(0);
    isTransposed = !isTransposed;
  }
}

Matrix Matrix::transposed() const {
  Matrix other = *this;
  other.isTransposed = !isTransposed;
  return other;
}

static bool isProduct(Operation &op) {
  return getName(&op) == "aten.mm" || getName(&op) == "aten.addmm";
}

/// The last two operands.
static std::pair<Value, Value> getFactors(Operation *op) {
  unsigned count = op->getNumOperands();
  return {op->getOperand(count - 2), op->getOperand(count - 1)};
}

static bool addsPlainly(Operation *op) {
  return getName(op) == "aten.mm" || (aten::getStaticNumber(op, "beta") == 1 &&
                                      aten::getStaticNumber(op, "alpha") == 1);
}

/// The matrix that `value` is, in whatever element type; null if it is none.
static StateOp findMatrix(Value value, func::FuncOp func,
                          const StateTable &states) {
  while (Operation *op = value.getDefiningOp()) {
    if (!aten::isCast(op) && !isa<ReplayOp>(op))
      return {};
    value = op->getOperand(0);
  }
  StateOp state =
      states.lookup(func, cast<BlockArgument>(value).getArgNumber());
  return state && isParameter(state) && state.getGlobalType().getRank() == 2
             ? state
             : StateOp();
}

namespace {
class LayerFinder {
public:
  LayerFinder(func::FuncOp func, const StateTable &states)
      : func(func), states(states) {}

  /// Products by their module, where the second matrix is its weight.
  void findByWeight() {
    for (Operation &op : func.getBody().front()) {
      if (!isProduct(op))
        continue;
      Matrix right(getFactors(&op).second);
      StateOp weight = findMatrix(right.base, func, states);
      StringRef module = SourcePlace(op.getLoc()).module;
      std::string name = module.empty() ? "weight" : (module + ".weight").str();
      if (!weight || !llvm::is_contained(weight.getAllNames(), name) ||
          !addsPlainly(&op))
        continue;
      // Backward alone multiplies by a weight as it is.
      if (!right.isTransposed && !layers.contains(module))
        continue;
      LinearLayer &layer = layers[module];
      layer.path = module.str();
      layer.weight = weight;
      layer.products.push_back({&op, right.isTransposed
                                         ? LinearProduct::Output
                                         : LinearProduct::InputGradient});
      known.insert(&op);
    }
  }

  /// The others of a layer's module: gradients of its weight.
  LogicalResult
  findGradients(llvm::function_ref<bool(const LinearLayer &)> isWanted) {
    for (Operation &op : func.getBody().front()) {
      if (!isProduct(op) || known.contains(&op))
        continue;
      auto it = layers.find(SourcePlace(op.getLoc()).module);
      if (it == layers.end() || !isWanted(it->second))
        continue;
      if (!readsInput(it->second, &op))
        return op.emitError("'")
               << it->first
               << "' has a product that is none of a linear layer's, so it "
                  "cannot multiply numbers of eight bits; leave it out of "
                  "float8's 'modules'";
      it->second.products.push_back({&op, LinearProduct::WeightGradient});
    }
    return success();
  }

  LogicalResult verify(const LinearLayer &layer) const {
    auto count = [&](LinearProduct kind) {
      return llvm::count_if(layer.products, [&](const LayerProduct &product) {
        return product.kind == kind;
      });
    };
    StateOp weight = layer.weight;
    bool isTrained = !isInference(func) && weight.getRole() == Role::Parameter;
    if (!isTrained ||
        count(LinearProduct::Output) == count(LinearProduct::WeightGradient))
      return success();
    return layer.products.front().op->emitError("'")
           << layer.path << "' multiplies by its weight "
           << count(LinearProduct::Output) << " times and has "
           << count(LinearProduct::WeightGradient)
           << " products for the weight's gradient that are found, so it "
              "cannot multiply numbers of eight bits; leave it out of "
              "float8's 'modules'";
  }

  SmallVector<LinearLayer> take() {
    SmallVector<LinearLayer> all;
    for (auto &[path, layer] : layers) {
      llvm::stable_sort(layer.products,
                        [](const LayerProduct &a, const LayerProduct &b) {
                          return a.op->isBeforeInBlock(b.op);
                        });
      all.push_back(std::move(layer));
    }
    return all;
  }

private:
  /// Whether one factor is the transpose of, or a transpose's second one, the
  /// input of a product of the layer.
  static bool readsInput(const LinearLayer &layer, Operation *op) {
    auto [left, right] = getFactors(op);
    return getName(op) == "aten.mm" &&
           llvm::any_of(layer.products, [&](const LayerProduct &product) {
             if (product.kind != LinearProduct::Output)
               return false;
             Matrix input(getFactors(product.op).first);
             return Matrix(right) == input ||
                    Matrix(left) == input.transposed();
           });
  }

  func::FuncOp func;
  const StateTable &states;
  llvm::MapVector<StringRef, LinearLayer> layers;
  llvm::DenseSet<Operation *> known;
};
} // namespace

FailureOr<SmallVector<LinearLayer>>
fsdp::findLinearLayers(func::FuncOp func, const StateTable &states,
                       llvm::function_ref<bool(const LinearLayer &)> isWanted) {
  LayerFinder finder(func, states);
  finder.findByWeight();
  if (failed(finder.findGradients(isWanted)))
    return failure();
  SmallVector<LinearLayer> layers = finder.take();
  for (const LinearLayer &layer : layers)
    if (isWanted(layer) && failed(finder.verify(layer)))
      return failure();
  return layers;
}

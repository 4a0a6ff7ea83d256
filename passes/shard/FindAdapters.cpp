//===- FindAdapters.cpp - Matrices that add to frozen ones ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Aten.h"
#include "ir/aten/Matchers.h"
#include "passes/Passes.h"
#include "passes/analysis/Decisions.h"
#include "passes/analysis/ForwardSlice.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/States.h"
#include "passes/analysis/TensorBuilders.h"
#include "passes/shard/AdapterMatchers.h"
#include "passes/shard/Float8Layers.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <cmath>

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_FINDADAPTERS
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {
/// A product of rows with a matrix of the model.
struct Product {
  Operation *op = nullptr;
  Value rows; ///< [n, in]
  StateOp matrix;
  bool isTransposed = false; ///< it is [out, in]
};

/// Where a base and what is added to it meet.
struct Occurrence {
  Product base, down, up;
  double scale = 1;

  bool isLike(const Occurrence &other) const {
    return base.matrix == other.base.matrix &&
           down.matrix == other.down.matrix && up.matrix == other.up.matrix &&
           scale == other.scale && base.isTransposed == other.base.isTransposed;
  }
};

StringRef getMatrixName(Product product) { return product.matrix.getSymName(); }

bool isTrained(Product product) {
  return product.matrix.getRole() == Role::Parameter;
}

/// One that is left out.
struct Obstacle {
  Product up;
  std::string why;
};

class Finder {
public:
  explicit Finder(func::FuncOp func)
      : func(func), states(func->getParentOfType<ModuleOp>()), forward(func) {
    for (BlockArgument argument : func.getArguments())
      if (StateOp state = states.lookup(func, argument.getArgNumber()))
        arguments[state] = argument;
  }

  /// In the order of the program.
  SmallVector<Occurrence> run() {
    SmallVector<Occurrence> all;
    for (Operation &op : func.getBody().front())
      if (std::optional<Product> up = matchProduct(&op))
        if (std::optional<Occurrence> found = find(*up))
          all.push_back(*found);
    llvm::MapVector<Operation *, SmallVector<Occurrence>> byBase;
    for (const Occurrence &each : all)
      byBase[each.base.matrix].push_back(each);
    SmallVector<Occurrence> kept;
    for (auto &[base, group] : byBase)
      if (isMergeable(group))
        kept.push_back(group.front());
    return kept;
  }

  ArrayRef<Obstacle> getObstacles() const { return obstacles; }

private:
  bool isForward(Operation *op) const {
    return forward.contains(op) || op->hasTrait<OpTrait::IsTerminator>();
  }

  /// The op of forward that reads `value`, if there is one alone.
  Operation *getReader(Value value) const {
    Operation *reader = nullptr;
    for (OpOperand &use : value.getUses()) {
      if (!isForward(use.getOwner()))
        continue;
      if (reader)
        return nullptr;
      reader = use.getOwner();
    }
    return reader;
  }

  /// In forward, with a matrix that is a parameter, through casts and copies.
  std::optional<Product> matchProduct(Operation *op) const {
    bool isAdded = aten::isAddedProduct(op);
    if ((!isAdded && getName(op) != "aten.mm") || !forward.contains(op))
      return std::nullopt;
    Product product;
    product.op = op;
    product.rows = op->getOperand(op->getNumOperands() - 2);
    Value value = op->getOperand(op->getNumOperands() - 1);
    for (;;) {
      Matrix matrix(value);
      product.isTransposed ^= matrix.isTransposed;
      value = matrix.base;
      Operation *copy = value.getDefiningOp();
      if (!copy || !adapters::isCopy(copy))
        break;
      value = copy->getOperand(0);
    }
    auto argument = dyn_cast<BlockArgument>(value);
    if (!argument)
      return std::nullopt;
    product.matrix = states.lookup(func, argument.getArgNumber());
    if (!product.matrix || !isParameter(product.matrix))
      return std::nullopt;
    RankedTensorType type = product.matrix.getGlobalType();
    // What sums are made of; others are codes of eight bits, or complex.
    bool isNumber = isa<Float64Type, Float32Type, BFloat16Type, Float16Type>(
        type.getElementType());
    return isNumber && type.getRank() == 2 ? std::optional(product)
                                           : std::nullopt;
  }

  /// The products by whose sum `value` is computed alone, through what keeps
  /// each element in its place and factor.
  void collectSummands(Value value, ArrayRef<int64_t> shape,
                       SmallVectorImpl<Operation *> &products) const {
    SmallVector<Value> worklist{value};
    while (!worklist.empty()) {
      Value each = worklist.pop_back_val();
      Operation *op = each.getDefiningOp();
      if (!op || !getReader(each) ||
          getTensor(each).getNumElements() != ShapedType::getNumElements(shape))
        continue;
      if (adapters::isReshape(op) || adapters::isCopy(op)) {
        worklist.push_back(op->getOperand(0));
      } else if (getName(op) == "aten.add.Tensor") {
        // The first operand's last: in front where the stack ends.
        if (aten::getStaticNumber(op, "alpha") == 1)
          worklist.push_back(op->getOperand(1));
        worklist.push_back(op->getOperand(0));
      } else if (getName(op) == "aten.mm" || aten::isAddedProduct(op)) {
        products.push_back(op);
        if (aten::isAddedProduct(op) && aten::getStaticNumber(op, "beta") == 1)
          worklist.push_back(op->getOperand(0));
      }
    }
  }

  /// The value that `rows` are, in whatever shape, from which on views, copies,
  /// factors and dropout lead to it: each with the factor by which the rows
  /// are that value times.
  static SmallVector<std::pair<Value, double>> traceRows(Value rows) {
    SmallVector<std::pair<Value, double>> all;
    double factor = 1;
    for (Value value = rows;;) {
      Operation *op = value.getDefiningOp();
      while (op && (adapters::isReshape(op) || adapters::isCopy(op))) {
        value = op->getOperand(0);
        op = value.getDefiningOp();
      }
      all.emplace_back(value, factor);
      if (!op)
        return all;
      if (Value dropped = adapters::getDropped(op)) {
        value = dropped;
      } else if (std::optional<double> by = adapters::getFactor(op)) {
        factor *= *by;
        value = op->getOperand(0);
      } else {
        return all;
      }
    }
  }

  /// The trained product that makes the rows of `up`, and the factor between
  /// them.
  std::optional<std::pair<Product, double>> findDown(const Product &up) const {
    double factor = 1;
    for (Value value = up.rows;;) {
      Operation *op = value.getDefiningOp();
      if (!op || getReader(value) == nullptr)
        return std::nullopt;
      if (std::optional<Product> product = matchProduct(op)) {
        if (!isTrained(*product) || getName(op) != "aten.mm")
          return std::nullopt;
        return std::pair(*product, factor);
      }
      if (std::optional<double> by = adapters::getFactor(op))
        factor *= *by;
      else if (!adapters::isReshape(op) && !adapters::isCopy(op))
        return std::nullopt;
      value = op->getOperand(0);
    }
  }

  std::optional<Occurrence> refuse(const Product &up, const Twine &why) {
    obstacles.push_back({up, why.str()});
    return std::nullopt;
  }

  /// What `up`, if it is the second product of an adapter, is added to.
  std::optional<Occurrence> find(const Product &up) {
    if (!isTrained(up))
      return std::nullopt;
    auto down = findDown(up);
    if (!down)
      return std::nullopt;
    Occurrence found;
    found.up = up;
    found.down = down->first;
    found.scale = down->second;
    if (!up.isTransposed || !found.down.isTransposed)
      return refuse(up, "its matrices are multiplied as they are, and not "
                        "transposed as those of linear layers");
    Value base = climb(found);
    if (!base)
      return std::nullopt;
    return findBase(found, base);
  }

  /// Along what reads the product of `up` to where it is added to something:
  /// the latter. Null if it is not.
  Value climb(Occurrence &found) {
    Operation *op = found.up.op;
    if (aten::isAddedProduct(op)) {
      std::optional<double> beta = aten::getStaticNumber(op, "beta");
      std::optional<double> alpha = aten::getStaticNumber(op, "alpha");
      if (beta != 1 || !alpha ||
          getTensor(op->getOperand(0)).getShape() !=
              getTensor(op->getResult(0)).getShape()) {
        refuse(found.up, "its second product has a bias");
        return {};
      }
      found.scale *= *alpha;
      return op->getOperand(0);
    }
    for (Value value = op->getResult(0);;) {
      op = getReader(value);
      if (!op || op->hasTrait<OpTrait::IsTerminator>()) {
        refuse(found.up, "what it computes is read several times, or is a "
                         "result of the program");
        return {};
      }
      bool isFirst = op->getOperand(0) == value;
      if (getName(op) == "aten.add.Tensor") {
        std::optional<double> alpha = aten::getStaticNumber(op, "alpha");
        Value other = op->getOperand(isFirst ? 1 : 0);
        bool isSame =
            getTensor(other).getShape() == getTensor(value).getShape();
        if (!alpha || (isFirst && *alpha != 1) || !isSame) {
          refuse(found.up,
                 "it is added to something of another shape or factor");
          return {};
        }
        if (!isFirst)
          found.scale *= *alpha;
        return other;
      }
      if (std::optional<double> by =
              isFirst ? adapters::getFactor(op) : std::nullopt) {
        found.scale *= *by;
      } else if (!adapters::isReshape(op) && !adapters::isCopy(op)) {
        refuse(found.up,
               getName(op).starts_with("aten.mul")
                   ? "its scale is no constant number"
                   : "'" + getName(op).str() + "' stands between it and a sum");
        return {};
      }
      value = op->getResult(0);
    }
  }

  std::optional<Occurrence> findBase(Occurrence &found, Value sum) {
    SmallVector<Operation *> products;
    collectSummands(sum, getTensor(found.up.op->getResult(0)).getShape(),
                    products);
    SmallVector<std::pair<Value, double>> inputs = traceRows(found.down.rows);
    bool hasFrozen = false;
    for (Operation *op : products) {
      std::optional<Product> base = matchProduct(op);
      bool isScaled =
          aten::isAddedProduct(op) && aten::getStaticNumber(op, "alpha") != 1;
      if (!base || isTrained(*base) || isScaled ||
          getTensor(op->getResult(0)).getShape() !=
              getTensor(found.up.op->getResult(0)).getShape())
        continue;
      hasFrozen = true;
      // The same rows: of one value, and as many of one length.
      Value input = traceRows(base->rows).front().first;
      const auto *same = llvm::find_if(
          inputs, [&](const auto &each) { return each.first == input; });
      if (same == inputs.end() || getTensor(base->rows).getShape() !=
                                      getTensor(found.down.rows).getShape())
        continue;
      found.base = *base;
      found.scale *= same->second;
      if (!std::isfinite(found.scale))
        return refuse(found.up, "its scale is no finite number");
      return found;
    }
    return refuse(found.up,
                  hasFrozen ? "it reads another input than the frozen matrix "
                              "whose product it is added to"
                            : "what it is added to is no product with a frozen "
                              "matrix, or is read elsewhere, too");
  }

  /// The ops of forward that read the matrix otherwise than by copies and
  /// transposes.
  llvm::SmallPtrSet<Operation *, 2> getReaders(StateOp matrix) const {
    llvm::SmallPtrSet<Operation *, 2> readers;
    SmallVector<Value> worklist{arguments.at(matrix)};
    while (!worklist.empty())
      for (Operation *user : worklist.pop_back_val().getUsers()) {
        if (!isForward(user))
          continue;
        bool isTransposed =
            user->getNumResults() == 1 &&
            Matrix(user->getResult(0)).base != user->getResult(0);
        if (isTransposed || adapters::isCopy(user))
          worklist.push_back(user->getResult(0));
        else
          readers.insert(user);
      }
    return readers;
  }

  /// Whether all products with its three matrices are those of one adapter.
  bool isMergeable(ArrayRef<Occurrence> group) {
    const Occurrence &first = group.front();
    auto refuseAll = [&](const Twine &why) {
      for (const Occurrence &each : group)
        refuse(each.up, why);
      return false;
    };
    for (const Occurrence &each : group.drop_front())
      if (!each.isLike(first))
        return refuseAll("another one is added to '" +
                         getMatrixName(first.base) + "', too");
    for (auto product :
         {&Occurrence::base, &Occurrence::down, &Occurrence::up}) {
      llvm::SmallPtrSet<Operation *, 2> readers =
          getReaders((first.*product).matrix);
      bool isOwn = llvm::all_of(group, [&](const Occurrence &each) {
        return readers.erase((each.*product).op);
      });
      if (!isOwn || !readers.empty())
        return refuseAll("'" + getMatrixName(first.*product) +
                         "' is read elsewhere, too");
    }
    return true;
  }

  func::FuncOp func;
  StateTable states;
  ForwardSlice forward;
  llvm::DenseMap<Operation *, BlockArgument> arguments; ///< of states
  SmallVector<Obstacle> obstacles;
};

struct FindAdapters final : fsdp::impl::FindAdaptersBase<FindAdapters> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    // Capture knows those that it put in.
    if (module->hasAttr(AdapterSettingsAttr::name))
      return;
    module->removeAttr(kAdaptersAttr);
    if (llvm::none_of(module.getOps<StateOp>(), [](StateOp state) {
          return state.getRole() == Role::Frozen;
        }))
      return;
    std::optional<SmallVector<Attribute>> found;
    for (func::FuncOp func : getPrograms(module)) {
      if (isInference(func))
        continue;
      SmallVector<Attribute> own = find(func);
      // What one program does not add is of use to that one alone.
      if (!found)
        found = own;
      else
        llvm::erase_if(
            *found, [&](Attribute a) { return !llvm::is_contained(own, a); });
    }
    if (found && !found->empty())
      module->setAttr(kAdaptersAttr, ArrayAttr::get(&getContext(), *found));
  }

private:
  SmallVector<Attribute> find(func::FuncOp func) {
    Finder finder(func);
    SmallVector<Attribute> adapters;
    auto name = [](StateOp state) {
      return FlatSymbolRefAttr::get(state.getSymNameAttr());
    };
    auto quote = [](const Product &product) {
      return ("'" + getMatrixName(product) + "'").str();
    };
    bool isAsked = wantsRemarks(func);
    for (Occurrence &each : finder.run()) {
      adapters.push_back(AdapterAttr::get(
          &getContext(), name(each.base.matrix), name(each.down.matrix),
          name(each.up.matrix), getReal(&getContext(), each.scale),
          !each.base.isTransposed, {}, {}, {}, /*experts=*/0));
      if (isAsked)
        remark::passed(each.up.op->getLoc(),
                       nameDecision("adapters", "Mergeable", func))
            << (quote(each.up) + " times " + quote(each.down) +
                " can be added to " + quote(each.base))
            << remark::reason("{0}", "their products are");
    }
    if (isAsked)
      for (const Obstacle &each : finder.getObstacles())
        remark::missed(each.up.op->getLoc(),
                       nameDecision("adapters", "StaysBeside", func))
            << (quote(each.up) +
                " is of no adapter that can be merged into a frozen matrix")
            << remark::reason("{0}", each.why);
    return adapters;
  }
};

} // namespace

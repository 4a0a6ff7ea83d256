//===- MakeKernel.cpp - A group becomes an op -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/kernels/MakeKernel.h"

#include "passes/analysis/Views.h"
#include "passes/kernels/Program.h"
#include "plan/Kernels.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fsdp;

namespace {

/// Makes a group an op.
class Maker {
public:
  explicit Maker(const KernelGroup &group) : group(group), body(group.body()) {
    takeTwins();
  }

  KernelOp make();

private:
  void takeTwins();
  void listInputs();
  SmallVector<bool> listInPlace();
  void fillBody(KernelOp kernel);
  void moveViews(Value value, Operation *&place);

  const KernelGroup &group;
  SmallVector<Operation *> body;
  SmallVector<Value> inputs;
};

} // namespace

std::string fsdp::nameKernel(ArrayRef<Operation *> ops) {
  constexpr size_t kMost = 5;
  SmallVector<StringRef> names;
  auto add = [&](StringRef name) {
    if (!llvm::is_contained(names, name))
      names.push_back(name);
  };
  for (Operation *op : ops)
    if (auto update = dyn_cast<UpdateOp>(op))
      add(getFacts(update.getKind()).name);
  for (Operation *op : ops)
    if (!isa<UpdateOp>(op) && isKernelOp(op))
      add(op->getName().stripDialect().split('.').first);
  std::string text = llvm::join(ArrayRef(names).take_front(kMost), "+");
  return names.size() > kMost
             ? text + "+" + std::to_string(names.size() - kMost)
             : text;
}

static bool isSmallConstant(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  return constant && constant.getValue().isSplat();
}

/// Takes in the views of what is read as it is, too, so that its elements are
/// read once.
void Maker::takeTwins() {
  DenseSet<Value> read;
  for (Operation *op : body)
    for (Value operand : op->getOperands())
      if (!llvm::is_contained(body, operand.getDefiningOp()))
        read.insert(operand);
  SmallVector<Operation *> more(body);
  for (Value value : read) {
    SmallVector<Operation *> views;
    Value source = value;
    while (Value next = getReshapedSource(source)) {
      if (!isKernelView(source.getDefiningOp()))
        break;
      views.push_back(source.getDefiningOp());
      source = next;
      if (!read.contains(source))
        continue;
      for (Operation *view : views)
        if (!llvm::is_contained(more, view))
          more.push_back(view);
      break;
    }
  }
  if (more.size() == body.size())
    return;
  llvm::sort(more,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  if (buildKernel(more, group.results))
    body = std::move(more);
}

void Maker::listInputs() {
  for (Operation *op : body)
    for (Value operand : op->getOperands())
      if (!llvm::is_contained(body, operand.getDefiningOp()) &&
          !isSmallConstant(operand) && !llvm::is_contained(inputs, operand))
        inputs.push_back(operand);
}

/// Of each input, whether results of its type may lie where it does.
SmallVector<bool> Maker::listInPlace() {
  std::optional<KernelOfOps> kernel = buildKernel(body, group.results);
  SmallVector<bool> inPlace(inputs.size(), true);
  const plan::KernelProgramT &program = kernel->program;
  for (auto [input, from] :
       llvm::zip_equal(kernel->inputs, operandsOf(program, /*written=*/false)))
    for (auto [result, to] :
         llvm::zip_equal(group.results, operandsOf(program, /*written=*/true)))
      if (result.getType() == input.getType() &&
          !mayOverwrite(program, to, from))
        inPlace[llvm::find(inputs, input) - inputs.begin()] = false;
  return inPlace;
}

void Maker::fillBody(KernelOp kernel) {
  IRMapping mapping;
  Block *block = new Block();
  kernel.getBody().push_back(block);
  for (Value input : inputs)
    mapping.map(input, block->addArgument(input.getType(), input.getLoc()));
  auto builder = OpBuilder::atBlockBegin(block);
  for (Operation *op : body) {
    for (Value operand : op->getOperands())
      if (isSmallConstant(operand) && !mapping.contains(operand))
        builder.clone(*operand.getDefiningOp(), mapping);
    builder.clone(*op, mapping);
  }
  SmallVector<Value> yielded;
  for (Value result : group.results)
    yielded.push_back(mapping.lookup(result));
  YieldOp::create(builder, kernel.getLoc(), yielded);
}

/// Views of `value` that stand in front of the kernel, to behind `place`.
void Maker::moveViews(Value value, Operation *&place) {
  SmallVector<Operation *> users(value.getUsers());
  llvm::sort(users,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  for (Operation *user : users) {
    if (!isView(user))
      continue;
    if (user->isBeforeInBlock(place)) {
      user->moveAfter(place);
      place = user;
    }
    moveViews(user->getResult(0), place);
  }
}

KernelOp Maker::make() {
  listInputs();
  OpBuilder builder(group.place);
  SmallVector<Type> types;
  for (Value result : group.results)
    types.push_back(result.getType());
  auto kernel = KernelOp::create(builder, group.place->getLoc(), types, inputs,
                                 listInPlace());
  fillBody(kernel);
  Operation *place = kernel;
  for (Value result : group.results)
    moveViews(result, place);
  for (auto [result, made] :
       llvm::zip_equal(group.results, kernel.getResults()))
    Value(result).replaceUsesWithIf(made, [&](OpOperand &use) {
      return !llvm::is_contained(group.ops, use.getOwner());
    });
  // Views that others read as well stay.
  for (Operation *op : llvm::reverse(body))
    if (op->use_empty())
      op->erase();
  return kernel;
}

KernelOp fsdp::makeKernel(const KernelGroup &group) {
  return Maker(group).make();
}

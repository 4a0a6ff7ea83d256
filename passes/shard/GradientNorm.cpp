//===- GradientNorm.cpp - The global norm of sharded gradients -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/shard/GradientNorm.h"

#include "passes/analysis/Mesh.h"
#include "passes/analysis/TensorBuilders.h"

#include "llvm/ADT/MapVector.h"

#include <limits>

using namespace mlir;
using namespace fsdp;

static NamedAttribute toF64(OpBuilder &builder, StringRef name, double value) {
  return builder.getNamedAttr(name, builder.getF64FloatAttr(value));
}

static NamedAttribute toDType(OpBuilder &builder, Type type) {
  return builder.getNamedAttr("dtype", TypeAttr::get(type));
}

std::optional<NormOrder> fsdp::getNormOrder(double order) {
  if (order == 1)
    return NormOrder::One;
  if (order == 2)
    return NormOrder::Two;
  if (order == std::numeric_limits<double>::infinity())
    return NormOrder::Inf;
  return std::nullopt;
}

/// A flat state is split as its members are.
static bool isSplit(StateOp state, const StateTable &states) {
  return state.getSplit() ||
         llvm::any_of(states.getMembers(state), [](StateOp member) {
           return member.getSplit().has_value();
         });
}

int64_t fsdp::getHolders(StateOp state, MeshAttr mesh,
                         const StateTable &states) {
  int64_t ranks = state.getSharding() ? 1 : getShardSize(mesh);
  return isSplit(state, states) ? ranks : ranks * getTensorSize(mesh);
}

Reduction fsdp::getReduction(NormOrder order) {
  return order == NormOrder::Inf ? Reduction::Max : Reduction::Avg;
}

static double getNumber(NormOrder order) {
  switch (order) {
  case NormOrder::One:
    return 1;
  case NormOrder::Two:
    return 2;
  case NormOrder::Inf:
    return std::numeric_limits<double>::infinity();
  }
  llvm_unreachable("all orders have a number");
}

/// Of two terms, one.
static Value join(OpBuilder &builder, Location loc, NormOrder order, Value a,
                  Value b) {
  StringRef name = order == NormOrder::Inf ? "aten.maximum" : "aten.add.Tensor";
  return buildScalarOp(builder, loc, name, {a, b}, {}, builder.getF32Type());
}

/// Of one element type.
static Operation *buildNormOp(OpBuilder &builder, Location loc, NormOrder order,
                              ArrayRef<Value> gradients, Type element) {
  Type wide = element.isF64() ? element : builder.getF32Type();
  SmallVector<NamedAttribute> arguments;
  if (order != NormOrder::Two)
    arguments.push_back(toF64(builder, "ord", getNumber(order)));
  if (wide != element)
    arguments.push_back(toDType(builder, wide));
  SmallVector<Type> types(gradients.size(), RankedTensorType::get({}, wide));
  return aten::buildAtenOp(builder, loc, "aten._foreach_norm.Scalar",
                           aten::TensorArgument(gradients), arguments, types);
}

/// By element type, in order.
static llvm::MapVector<Type, SmallVector<Value>> groupByType(NormOrder order,
                                                             ValueRange all) {
  llvm::MapVector<Type, SmallVector<Value>> groups;
  for (Value gradient : all) {
    auto type = cast<RankedTensorType>(gradient.getType());
    // The greatest of no element is not defined.
    if (order != NormOrder::Inf || type.getNumElements() != 0)
      groups[type.getElementType()].push_back(gradient);
  }
  return groups;
}

void fsdp::buildNorms(OpBuilder &builder, Location loc, NormOrder order,
                      ValueRange gradients, GradientNorms &norms) {
  for (auto &[element, members] : groupByType(order, gradients)) {
    Operation *op = buildNormOp(builder, loc, order, members, element);
    for (auto [gradient, norm] : llvm::zip_equal(members, op->getResults()))
      norms[gradient] = norm;
  }
}

/// Of gradients of one element type.
static Value buildGroup(OpBuilder &builder, Location loc, NormOrder order,
                        ArrayRef<Value> gradients, Type element,
                        const GradientNorms &known) {
  Type wide = element.isF64() ? element : builder.getF32Type();
  SmallVector<Value> norms;
  if (known.contains(gradients.front()))
    norms = llvm::map_to_vector(
        gradients, [&](Value gradient) { return known.at(gradient); });
  else
    norms = buildNormOp(builder, loc, order, gradients, element)->getResults();
  Type vector =
      RankedTensorType::get({static_cast<int64_t>(norms.size())}, wide);
  Value terms = aten::buildAtenOp(builder, loc, "aten.stack",
                                  aten::TensorArgument(ArrayRef<Value>(norms)),
                                  {}, vector)
                    ->getResult(0);
  if (order == NormOrder::Two)
    terms = aten::buildAtenOp(builder, loc, "aten.mul.Tensor", {terms, terms},
                              {}, vector)
                ->getResult(0);
  StringRef name = order == NormOrder::Inf ? "aten.max" : "aten.sum";
  Value term = buildScalarOp(builder, loc, name, {terms}, {}, wide);
  if (wide.isF32())
    return term;
  return buildScalarOp(builder, loc, "aten._to_copy", {term},
                       toDType(builder, builder.getF32Type()),
                       builder.getF32Type());
}

/// Of gradients of any types; null if there is none.
static Value buildTerm(OpBuilder &builder, Location loc, NormOrder order,
                       ValueRange gradients, const GradientNorms &known) {
  Value total;
  for (auto &[element, members] : groupByType(order, gradients)) {
    Value term = buildGroup(builder, loc, order, members, element, known);
    total = total ? join(builder, loc, order, total, term) : term;
  }
  return total;
}

Value fsdp::buildNormTerm(OpBuilder &builder, Location loc, NormOrder order,
                          const HeldGradients &gradients,
                          const GradientNorms &known) {
  HeldGradients apart;
  // Where ranks only look for the greatest, it does not matter who has what.
  for (const auto &[ranks, held] : gradients)
    llvm::append_range(apart[order == NormOrder::Inf ? 1 : ranks], held);
  Type f32 = builder.getF32Type();
  Value term;
  for (const auto &[ranks, held] : apart) {
    Value part = buildTerm(builder, loc, order, held, known);
    if (!part)
      continue;
    if (ranks > 1)
      part = buildScalarOp(builder, loc, "aten.div.Scalar", {part},
                           toF64(builder, "other", double(ranks)), f32);
    term = term ? join(builder, loc, order, term, part) : part;
  }
  if (term)
    return term;
  auto scalar = RankedTensorType::get({}, f32);
  return ConstantOp::create(builder, loc, scalar,
                            DenseElementsAttr::get(scalar, 0.0f),
                            /*wrapped=*/UnitAttr());
}

Value fsdp::buildNorm(OpBuilder &builder, Location loc, NormOrder order,
                      Value reduced, int64_t ranks) {
  Type f32 = builder.getF32Type();
  if (order == NormOrder::Inf)
    return reduced;
  if (ranks > 1)
    reduced = buildScalarOp(builder, loc, "aten.mul.Scalar", {reduced},
                            toF64(builder, "other", double(ranks)), f32);
  if (order == NormOrder::One)
    return reduced;
  return buildScalarOp(builder, loc, "aten.sqrt", {reduced}, {}, f32);
}

Value fsdp::divideNorm(OpBuilder &builder, Location loc, Value norm,
                       double divisor) {
  return buildScalarOp(builder, loc, "aten.div.Scalar", {norm},
                       toF64(builder, "other", divisor), builder.getF32Type());
}

Value fsdp::buildDivisor(OpBuilder &builder, Location loc, Value divisor,
                         double factor) {
  if (divisor)
    return buildScalarOp(builder, loc, "aten.mul.Scalar", {divisor},
                         toF64(builder, "other", factor), builder.getF32Type());
  auto scalar = RankedTensorType::get({}, builder.getF32Type());
  return ConstantOp::create(builder, loc, scalar,
                            DenseElementsAttr::get(scalar, float(factor)),
                            /*wrapped=*/UnitAttr());
}

Value fsdp::buildClipDivisor(OpBuilder &builder, Location loc, Value norm,
                             double maxNorm) {
  Type f32 = builder.getF32Type();
  Value above = buildScalarOp(builder, loc, "aten.add.Scalar", {norm},
                              toF64(builder, "other", 1e-6), f32);
  Value ratio = buildScalarOp(builder, loc, "aten.div.Scalar", {above},
                              toF64(builder, "other", maxNorm), f32);
  return buildScalarOp(builder, loc, "aten.clamp_min", {ratio},
                       toF64(builder, "min", 1.0), f32);
}

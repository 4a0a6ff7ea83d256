//===- ParameterNorms.cpp - Norms by parameter or module ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/shard/ParameterNorms.h"

#include "passes/analysis/ModulePaths.h"
#include "passes/analysis/Outputs.h"
#include "passes/analysis/TensorBuilders.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace fsdp;

std::string fsdp::getNormModule(StringRef parameter) {
  StringRef path = getParentPath(parameter);
  SmallVector<StringRef> parts;
  path.split(parts, '.');
  size_t length = 0;
  for (StringRef part : parts) {
    length += part.size();
    if (!part.empty() && llvm::all_of(part, llvm::isDigit))
      return path.take_front(length).str();
    ++length;
  }
  return path.empty() ? kRootBucket.str() : path.str();
}

ParameterNorms::ParameterNorms(OpBuilder &builder, Location loc,
                               ReportedNormsAttr asked,
                               function_ref<int64_t(StateOp)> getHolders,
                               ArrayRef<Trained *> trained)
    : builder(builder), loc(loc), asked(asked) {
  llvm::MapVector<StringAttr, SmallVector<unsigned>> found;
  for (auto [i, each] : llvm::enumerate(trained)) {
    StateOp state = each->state;
    of[state] = i;
    holders.push_back(getHolders(state));
    std::string name = asked.getByModule() ? getNormModule(state.getSymName())
                                           : state.getSymName().str();
    found[builder.getStringAttr(name)].push_back(i);
  }
  for (auto &[name, members] : found)
    groups.push_back({name.str(), members});
  for (auto &all : norms)
    all.resize(trained.size());
  old.resize(trained.size());
}

LogicalResult ParameterNorms::verify(const StateTable &states,
                                     ArrayRef<Trained> trained) {
  for (const Trained &each : trained) {
    StateOp state = each.state;
    if (!states.getMembers(state).empty())
      return state.emitOpError(
          "is a flat bucket, of whose parameters each rank "
          "has other parts: there are no norms by "
          "parameter or module; write bucket_layout: rows, "
          "or leave metrics out");
  }
  return success();
}

bool ParameterNorms::isAsked(int kind) const {
  return kind == Gradient ? asked.getGradients()
         : kind == Weight ? asked.getWeights()
                          : asked.getUpdates();
}

/// In f32 at least.
Value ParameterNorms::toWide(Value value) {
  RankedTensorType type = getTensor(value);
  if (type.getElementType().isF32() || type.getElementType().isF64())
    return value;
  Type wide = builder.getF32Type();
  return aten::buildAtenOp(builder, loc, "aten._to_copy", {value},
                           builder.getNamedAttr("dtype", TypeAttr::get(wide)),
                           RankedTensorType::get(type.getShape(), wide))
      ->getResult(0);
}

/// A copy, which stays when `value` changes.
Value ParameterNorms::makeOwn(Value value) {
  Value wide = toWide(value);
  return wide == value ? buildContiguousCopy(builder, loc, value) : wide;
}

void ParameterNorms::note(ArrayRef<Trained *> members,
                          const GradientNorms &known) {
  auto take = [&](Kind kind, auto get) {
    if (!isAsked(kind))
      return;
    GradientNorms made;
    SmallVector<Value> missing;
    for (Trained *each : members)
      if (Value value = get(*each); kind != Gradient || !known.contains(value))
        missing.push_back(value);
    buildNorms(builder, loc, NormOrder::Two, missing, made);
    for (Trained *each : members) {
      Value value = get(*each);
      Value norm = made.lookup(value);
      norms[kind][of.lookup(each->state)] = norm ? norm : known.at(value);
    }
  };
  take(Gradient, [](const Trained &each) { return each.grad; });
  take(Weight, [](const Trained &each) { return Value(each.param); });
  if (!isAsked(Update))
    return;
  for (Trained *each : members)
    old[of.lookup(each->state)] = makeOwn(each->param);
}

void ParameterNorms::noteUpdates(
    ArrayRef<std::pair<StateOp, Value>> newValues) {
  if (!isAsked(Update))
    return;
  GradientNorms made;
  SmallVector<std::pair<unsigned, Value>> changes;
  SmallVector<Value> values;
  for (auto [state, value] : newValues) {
    auto member = of.find(state);
    if (member == of.end())
      continue;
    Value wide = toWide(value), before = old[member->second];
    Value change = aten::buildAtenOp(builder, loc, "aten.sub.Tensor",
                                     {wide, before}, {}, before.getType())
                       ->getResult(0);
    changes.push_back({member->second, change});
    values.push_back(change);
  }
  buildNorms(builder, loc, NormOrder::Two, values, made);
  for (auto [member, change] : changes)
    norms[Update][member] = made.at(change);
}

/// The squares of all members, kind by kind and group by group, each divided
/// by who holds it, as one vector.
Value ParameterNorms::buildSums(int64_t ranks) {
  SmallVector<Value> all;
  SmallVector<float> parts;
  Type f32 = builder.getF32Type();
  for (int kind = 0; kind < NumKinds; ++kind)
    for (const Group &group : groups)
      for (unsigned member : group.members) {
        if (!isAsked(kind))
          continue;
        Value norm = norms[kind][member];
        if (!getTensor(norm).getElementType().isF32())
          norm = buildScalarOp(
              builder, loc, "aten._to_copy", {norm},
              builder.getNamedAttr("dtype", TypeAttr::get(f32)), f32);
        all.push_back(norm);
        // The mean over all ranks follows, and what it is the mean of.
        parts.push_back(float(double(ranks) / double(holders[member])));
      }
  auto type = RankedTensorType::get({int64_t(all.size())}, f32);
  Value vector =
      aten::buildAtenOp(builder, loc, "aten.stack",
                        aten::TensorArgument(ArrayRef<Value>(all)), {}, type)
          ->getResult(0);
  auto multiply = [&](Value by) {
    vector = aten::buildAtenOp(builder, loc, "aten.mul.Tensor", {vector, by},
                               {}, type)
                 ->getResult(0);
  };
  multiply(vector);
  if (llvm::any_of(parts, [](float part) { return part != 1; }))
    multiply(ConstantOp::create(
        builder, loc, type,
        DenseElementsAttr::get(type, ArrayRef<float>(parts)), UnitAttr()));
  return vector;
}

/// One sum for each group.
Value ParameterNorms::joinGroups(Value squares, int64_t kinds) {
  if (llvm::all_of(
          groups, [](const Group &group) { return group.members.size() == 1; }))
    return squares;
  Type f32 = builder.getF32Type();
  SmallVector<Value> sums;
  int64_t begin = 0;
  for (int64_t kind = 0; kind < kinds; ++kind)
    for (const Group &group : groups) {
      auto count = static_cast<int64_t>(group.members.size());
      Value part = buildView(builder, loc, squares, begin,
                             RankedTensorType::get({count}, f32));
      sums.push_back(buildScalarOp(builder, loc, "aten.sum", {part}, {}, f32));
      begin += count;
    }
  auto type = RankedTensorType::get({int64_t(sums.size())}, f32);
  return aten::buildAtenOp(builder, loc, "aten.stack",
                           aten::TensorArgument(ArrayRef<Value>(sums)), {},
                           type)
      ->getResult(0);
}

SmallVector<ParameterNorms::Result> ParameterNorms::finish(GroupAttr world,
                                                           int64_t ranks,
                                                           double divisor,
                                                           ValueRange factors) {
  int64_t kinds = 0;
  for (int kind = 0; kind < NumKinds; ++kind)
    kinds += isAsked(kind);
  Value sums = joinGroups(buildSums(ranks), kinds);
  if (world.getSize() > 1)
    sums =
        AllReduceOp::create(builder, loc, sums.getType(), sums, Reduction::Avg,
                            world, FlatSymbolRefAttr(), Purpose::Metric);
  auto type =
      RankedTensorType::get({int64_t(groups.size())}, builder.getF32Type());
  auto build = [&](StringRef name, ArrayRef<aten::TensorArgument> tensors,
                   ArrayRef<NamedAttribute> numbers = {}) -> Value {
    return aten::buildAtenOp(builder, loc, name, tensors, numbers, type)
        ->getResult(0);
  };
  static constexpr StringLiteral kNames[] = {"grad/", "weight/", "update/"};
  SmallVector<Result> results;
  for (int kind = 0; kind < NumKinds; ++kind) {
    if (!isAsked(kind))
      continue;
    int64_t begin = int64_t(results.size()) * int64_t(groups.size());
    Value norm =
        build("aten.sqrt", {buildView(builder, loc, sums, begin, type)});
    if (kind == Gradient && divisor != 1)
      norm = build(
          "aten.div.Scalar", {norm},
          builder.getNamedAttr("other", builder.getF64FloatAttr(divisor)));
    if (kind == Gradient)
      for (Value factor : factors)
        norm = build("aten.div.Tensor", {norm, factor});
    SmallVector<std::string> names;
    for (const Group &group : groups)
      names.push_back(kNames[kind].str() + group.name);
    results.push_back(
        {norm, builder.getStrArrayAttr(llvm::to_vector_of<StringRef>(names))});
  }
  return results;
}

//===- WindowCalls.cpp - Calls of attention of a band of keys -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/plan/WindowCalls.h"

#include "ir/aten/OpModel.h"

#include <limits>

using namespace mlir;
using namespace fsdp;

WindowCalls::WindowCalls(Operation *op, TensorOps &ops, bool isOnCpu)
    : op(op), ops(ops), isOnCpu(isOnCpu) {
  for (const aten::BoundTensors &bound : aten::getTensorArguments(op))
    for (Value tensor : bound.tensors)
      if (tensor)
        names.push_back(bound.argument->name);
}

Value WindowCalls::get(StringRef name) const {
  return op->getOperand(llvm::find(names, name) - names.begin());
}

Value WindowCalls::take(Value value, int64_t dim, int64_t begin, int64_t end) {
  return begin == 0 && end == getTensor(value).getDimSize(dim)
             ? ops.copy(value)
             : ops.copy(ops.slice(value, dim, begin, end));
}

Value WindowCalls::addRows(Value sum, Value part, int64_t begin) {
  int64_t rows = getTensor(part).getDimSize(kTokens),
          all = getTensor(sum).getDimSize(kTokens);
  Value added = ops.add(take(sum, kTokens, begin, begin + rows), part);
  if (rows == all)
    return added;
  SmallVector<Value> parts;
  if (begin > 0)
    parts.push_back(take(sum, kTokens, 0, begin));
  parts.push_back(added);
  if (begin + rows < all)
    parts.push_back(take(sum, kTokens, begin + rows, all));
  return ops.cat(parts, kTokens);
}

Value WindowCalls::toSum(Value value) {
  return ops.cast(ops.copy(value), Float32Type::get(op->getContext()));
}

//===----------------------------------------------------------------------===//
// Kernels that are told
//===----------------------------------------------------------------------===//

Operation *WindowCalls::tell(ArrayRef<Value> operands, Band band,
                             int64_t queries, int64_t keys) {
  SmallVector<Type> types(op->getResultTypes());
  for (auto [i, type] : llvm::enumerate(types)) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || i > (isBackward() ? 2u : 1u))
      continue;
    bool ofSums = !isBackward() && i == 1;
    SmallVector<int64_t> shape(tensor.getShape());
    shape[ofSums ? kSumTokens : kTokens] =
        isBackward() && i > 0 ? keys : queries;
    type = RankedTensorType::get(shape, tensor.getElementType());
  }
  NamedAttrList statics(aten::getProperty(op));
  auto say = [&](StringRef name, std::optional<int64_t> number) {
    if (number)
      statics.set(name, ops.get().getI64IntegerAttr(*number));
    else
      statics.erase(name);
  };
  bool isCausal = !band.left && band.right == 0;
  say("window_size_left", band.left);
  say("window_size_right", isCausal ? std::nullopt : band.right);
  statics.set("is_causal", ops.get().getBoolAttr(isCausal));
  say("max_q", queries);
  say("max_k", keys);
  return ops.remake(op, operands, types,
                    statics.getDictionary(op->getContext()));
}

WindowCalls::Partial WindowCalls::attend(Value query, Value key, Value value,
                                         Band band) {
  if (isOnCpu)
    return attendOnCpu(query, key, value, band);
  SmallVector<Value> operands(op->getOperands());
  auto set = [&](StringRef name, Value to) {
    operands[llvm::find(names, name) - names.begin()] = ops.copy(to);
  };
  set("query", query);
  set("key", key);
  set("value", value);
  Operation *each = tell(operands, band, getTensor(query).getDimSize(kTokens),
                         getTensor(key).getDimSize(kTokens));
  return {toSum(each->getResult(0)), each->getResult(1)};
}

WindowCalls::Gradients WindowCalls::differentiate(OfQueries of, Value key,
                                                  Value value, Band band) {
  if (isOnCpu)
    return differentiateOnCpu(of, key, value, band);
  SmallVector<Value> operands(op->getOperands());
  auto set = [&](StringRef name, Value to) {
    operands[llvm::find(names, name) - names.begin()] = ops.copy(to);
  };
  set("grad_out", of.gradient);
  set("query", of.query);
  set("key", key);
  set("value", value);
  set("out", of.output);
  set("logsumexp", of.sum);
  Operation *each =
      tell(operands, band, getTensor(of.query).getDimSize(kTokens),
           getTensor(key).getDimSize(kTokens));
  return {toSum(each->getResult(0)), toSum(each->getResult(1)),
          toSum(each->getResult(2))};
}

//===----------------------------------------------------------------------===//
// CPUs
//===----------------------------------------------------------------------===//

SmallVector<WindowCalls::Block> WindowCalls::chooseBlocks(int64_t length,
                                                          Band band) const {
  // Blocks as long as the window read twice the keys that are seen, longer ones
  // less often; kernels work on tiles of so many rows.
  constexpr int64_t kMostBlocks = 8, kTile = 32;
  int64_t rows = length;
  if (band.left && band.right == 0) {
    int64_t least = (length + kMostBlocks - 1) / kMostBlocks;
    rows = (std::max(*band.left, least) + kTile - 1) / kTile * kTile;
    rows = std::min(length, rows);
  }
  SmallVector<Block> blocks;
  for (int64_t begin = 0; begin < length; begin += rows) {
    int64_t end = std::min(length, begin + rows);
    blocks.push_back({begin, end,
                      band.left ? std::max<int64_t>(0, begin - *band.left) : 0,
                      band.right == 0 ? end : length});
  }
  return blocks;
}

Value WindowCalls::makeMask(const Block &block, Band band, Type element) {
  SmallVector<int64_t> shape{block.end - block.begin,
                             block.endKey - block.firstKey};
  int64_t diagonal = block.begin - block.firstKey;
  auto hide = [&](StringRef name, int64_t from) {
    Value low = ops.fill(
        ops.get().getF64FloatAttr(-std::numeric_limits<double>::infinity()),
        shape, element);
    return ops.make(name, {low}, ops.integer("diagonal", from), getTensor(low));
  };
  Value before, behind;
  if (band.left)
    before = hide("aten.tril", diagonal - *band.left - 1);
  if (band.right)
    behind = hide("aten.triu", diagonal + *band.right + 1);
  return before && behind ? ops.add(before, behind) : before ? before : behind;
}

/// [batch, heads, tokens, width] for [batch, tokens, heads, width], or the
/// other way round; contiguous.
Value WindowCalls::swap(Value value) {
  return ops.copy(buildPermute(ops.get(), ops.getLoc(), value, {0, 2, 1, 3}));
}

Value WindowCalls::toHeads(Value value, int64_t heads) {
  RankedTensorType type = getTensor(value);
  int64_t batch = type.getDimSize(0), tokens = type.getDimSize(1),
          own = type.getDimSize(2), width = type.getDimSize(3);
  value = swap(value);
  if (own == heads)
    return value;
  value = ops.view(value, {batch, own, 1, tokens, width});
  value = ops.copy(ops.expand(value, {batch, own, heads / own, tokens, width}));
  return ops.view(value, {batch, heads, tokens, width});
}

/// The gradient, [batch, heads, tokens, width], of what `toHeads` gave.
Value WindowCalls::addUpHeads(Value gradient, int64_t heads) {
  Value sum =
      toSum(buildPermute(ops.get(), ops.getLoc(), gradient, {0, 2, 1, 3}));
  RankedTensorType type = getTensor(sum);
  int64_t batch = type.getDimSize(0), tokens = type.getDimSize(1),
          all = type.getDimSize(2), width = type.getDimSize(3);
  if (all == heads)
    return sum;
  sum = ops.view(sum, {batch, tokens, heads, all / heads, width});
  return ops.make("aten.sum.dim_IntList", {sum}, ops.integers("dim", {3}),
                  RankedTensorType::get({batch, tokens, heads, width},
                                        type.getElementType()));
}

static RankedTensorType byPosition(int64_t batch, int64_t heads, int64_t tokens,
                                   int64_t width, Type element) {
  return aten::getTensorType({batch, heads, tokens, width},
                             {tokens * heads * width, width, heads * width, 1},
                             element);
}

WindowCalls::Partial WindowCalls::attendOnCpu(Value query, Value key,
                                              Value value, Band band) {
  RankedTensorType type = getTensor(query);
  int64_t batch = type.getDimSize(0), heads = type.getDimSize(2);
  SmallVector<Value> outputs, sums;
  for (const Block &block : chooseBlocks(type.getDimSize(kTokens), band)) {
    Value q = swap(take(query, kTokens, block.begin, block.end));
    Value k = toHeads(take(key, kTokens, block.firstKey, block.endKey), heads);
    Value v =
        toHeads(take(value, kTokens, block.firstKey, block.endKey), heads);
    bool isCausal = !band.left && band.right == 0;
    SmallVector<aten::TensorArgument> tensors{q, k, v};
    if (!isCausal && (band.left || band.right))
      tensors.push_back(makeMask(block, band, type.getElementType()));
    int64_t rows = block.end - block.begin;
    SmallVector<NamedAttribute> statics{
        ops.get().getNamedAttr("is_causal", ops.get().getBoolAttr(isCausal))};
    if (Attribute scale = aten::getStaticArgument(op, "scale"))
      statics.push_back(ops.get().getNamedAttr("scale", scale));
    RankedTensorType sumType =
        aten::getTensorType({batch, heads, rows}, {rows * heads, 1, heads},
                            Float32Type::get(op->getContext()));
    Operation *each =
        aten::buildAtenOp(ops.get(), ops.getLoc(),
                          "aten._scaled_dot_product_flash_attention_for_cpu",
                          tensors, statics, TypeRange{q.getType(), sumType});
    outputs.push_back(toSum(swap(each->getResult(0))));
    sums.push_back(ops.copy(each->getResult(1)));
  }
  if (outputs.size() == 1)
    return {outputs.front(), sums.front()};
  return {ops.cat(outputs, kTokens), ops.cat(sums, kSumTokens)};
}

WindowCalls::Gradients WindowCalls::differentiateOnCpu(OfQueries of, Value key,
                                                       Value value, Band band) {
  RankedTensorType type = getTensor(of.query), keys = getTensor(key);
  int64_t batch = type.getDimSize(0), heads = type.getDimSize(2),
          width = type.getDimSize(3), own = keys.getDimSize(2);
  Type element = type.getElementType();
  SmallVector<Value> queries;
  Value ofKeys, ofValues;
  for (const Block &block : chooseBlocks(type.getDimSize(kTokens), band)) {
    auto rows = [&](Value each) {
      return swap(take(each, kTokens, block.begin, block.end));
    };
    Value k = toHeads(take(key, kTokens, block.firstKey, block.endKey), heads);
    Value v =
        toHeads(take(value, kTokens, block.firstKey, block.endKey), heads);
    bool isCausal = !band.left && band.right == 0;
    SmallVector<aten::TensorArgument> tensors{
        rows(of.gradient),
        rows(of.query),
        k,
        v,
        rows(of.output),
        take(of.sum, kSumTokens, block.begin, block.end)};
    if (!isCausal && (band.left || band.right))
      tensors.push_back(makeMask(block, band, element));
    SmallVector<NamedAttribute> statics{
        ops.get().getNamedAttr("dropout_p", ops.get().getF64FloatAttr(0)),
        ops.get().getNamedAttr("is_causal", ops.get().getBoolAttr(isCausal))};
    if (Attribute scale = aten::getStaticArgument(op, "scale"))
      statics.push_back(ops.get().getNamedAttr("scale", scale));
    auto ofType = [&](int64_t tokens) {
      return byPosition(batch, heads, tokens, width, element);
    };
    Type ofBand = ofType(block.endKey - block.firstKey);
    Operation *each = aten::buildAtenOp(
        ops.get(), ops.getLoc(),
        "aten._scaled_dot_product_flash_attention_for_cpu_backward", tensors,
        statics, TypeRange{ofType(block.end - block.begin), ofBand, ofBand});
    queries.push_back(addUpHeads(each->getResult(0), heads));
    auto add = [&](Value &sum, Value part) {
      SmallVector<int64_t> shape(keys.getShape());
      if (!sum)
        sum = ops.fill(ops.get().getF64FloatAttr(0), shape,
                       Float32Type::get(op->getContext()));
      sum = addRows(sum, part, block.firstKey);
    };
    add(ofKeys, addUpHeads(each->getResult(1), own));
    add(ofValues, addUpHeads(each->getResult(2), own));
  }
  return {queries.size() == 1 ? queries.front() : ops.cat(queries, kTokens),
          ofKeys, ofValues};
}

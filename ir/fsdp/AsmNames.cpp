//===- AsmNames.cpp - What results are called in text ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/fsdp/Fsdp.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace fsdp;

/// Characters that a name in text may have.
static std::string tidy(StringRef name) {
  std::string text = name.str();
  for (char &c : text)
    if (!llvm::isAlnum(c) && c != '.' && c != '_' && c != '-')
      c = '.';
  return text;
}

/// The op that `value` was made of, through casts, views and replays; the
/// argument at the end, if there is one.
static BlockArgument findArgument(Value value, bool &isReplayed) {
  // Far more than shards are changed by; names are asked for in broken
  // programs, too.
  for (int i = 0; i < 16; ++i) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return argument;
    Operation *op = value.getDefiningOp();
    isReplayed |= isa<ReplayOp>(op);
    if (op->getNumOperands() == 0)
      break;
    auto wait = dyn_cast<WaitOp>(op);
    value = wait ? wait.getForwarded(cast<OpResult>(value)) : op->getOperand(0);
    if (!value)
      break;
  }
  return {};
}

/// The state that a shard is of; "" if that is not known.
static StringRef getStateName(Value shard) {
  bool isReplayed = false;
  BlockArgument argument = findArgument(shard, isReplayed);
  if (!argument)
    return "";
  auto function =
      dyn_cast_or_null<FunctionOpInterface>(argument.getOwner()->getParentOp());
  if (!function || argument.getArgNumber() >= function.getNumArguments())
    return "";
  auto state = function.getArgAttrOfType<FlatSymbolRefAttr>(
      argument.getArgNumber(), kStateAttr);
  return state ? state.getValue() : StringRef();
}

static std::string getFutureName(StringRef what,
                                 std::optional<StringRef> bucket) {
  return what.str() + (bucket && !bucket->empty() ? "." + tidy(*bucket) : "");
}

void StartOp::getAsmResultNames(OpAsmSetValueNameFn set) {
  bool isReplayed = false;
  if (getKind() == Collective::AllGather)
    for (Value input : getInputs())
      findArgument(input, isReplayed);
  set(getFuture(),
      getFutureName(isReplayed ? "regather" : getVerb(getKind()), getBucket()));
}

void CopyStartOp::getAsmResultNames(OpAsmSetValueNameFn set) {
  set(getFuture(), getFutureName(stringifyStream(getStream()), getBucket()));
}

/// Of the member at `i` of what `start` moves.
static std::string getMemberName(StartOpInterface start, unsigned i) {
  if (auto copy = dyn_cast<CopyStartOp>(start.getOperation()))
    return stringifyMemorySpace(copy.getTo()).str();
  if (isStart(start, Collective::Rotate))
    return "passed";
  if (isStart(start, Collective::AllGather)) {
    StringRef state = i < start.getInputs().size()
                          ? getStateName(start.getInputs()[i])
                          : StringRef();
    return state.empty() ? "full" : tidy(state) + ".full";
  }
  if (FlatSymbolRefAttr parameter = start.getGradientOf(i))
    return tidy(parameter.getValue()) +
           (isStart(start, Collective::AllToAll) ? ".parts" : ".grad");
  if (isStart(start, Collective::AllToAll))
    return "parts";
  StringAttr bucket = start.getBucketAttr();
  return bucket && !bucket.empty() ? tidy(bucket.getValue()) : "reduced";
}

void WaitOp::getAsmResultNames(OpAsmSetValueNameFn set) {
  if (StartOpInterface start = getStart())
    for (auto [i, result] : llvm::enumerate(getResults()))
      set(result, getMemberName(start, i));
}

void UpdateOp::getAsmResultNames(OpAsmSetValueNameFn set) {
  for (auto [what, olds, news] : getUpdates())
    for (auto [i, result] : llvm::enumerate(news)) {
      StringRef state = i < olds.size() ? getStateName(olds[i]) : StringRef();
      set(result, state.empty() ? "new" : tidy(state) + ".new");
    }
}

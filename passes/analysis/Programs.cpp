//===- Programs.cpp - Functions of a module and their states --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/Programs.h"

#include "ir/aten/Matchers.h"

using namespace mlir;
using namespace fsdp;

bool fsdp::isReference(func::FuncOp func) {
  return getProgram(func).getReference();
}

bool fsdp::isInference(func::FuncOp func) {
  return getProgram(func).getKind() != ProgramKind::Train;
}

bool fsdp::isValidation(func::FuncOp func) {
  return getProgram(func).getKind() == ProgramKind::Eval;
}

SmallVector<func::FuncOp> fsdp::getPrograms(ModuleOp module) {
  SmallVector<func::FuncOp> programs;
  for (auto func : module.getOps<func::FuncOp>())
    if (!func.isExternal() && !isReference(func))
      programs.push_back(func);
  return programs;
}

FailureOr<MeshAttr> fsdp::getDataMesh(ModuleOp module) {
  auto mesh = module->getAttrOfType<MeshAttr>(kMeshAttr);
  if (!mesh)
    return module.emitError(
        "expects a sharded program; run fsdp-shard-parameters first");
  ArrayRef<StringAttr> names = mesh.getNames();
  if (!names.empty() && names.front() == kReplicateAxis)
    names = names.drop_front();
  bool hasShard = !names.empty() && names.front() == kShardAxis;
  if (!hasShard || names.size() > 2 ||
      (names.size() == 2 && names.back() != kTensorAxis))
    return module.emitError("expects a mesh with the axis 'shard', or with "
                            "'replicate' and 'shard', found ")
           << mesh << "; 'tp' alone may stand behind them";
  return mesh;
}

int64_t fsdp::getShardSize(MeshAttr mesh) {
  return mesh.getGroup(kShardAxis).getSize();
}

int64_t fsdp::getTensorSize(MeshAttr mesh) {
  GroupAttr group = mesh.getGroup(kTensorAxis);
  return group ? group.getSize() : 1;
}

GroupAttr fsdp::getDataGroup(MeshAttr mesh) {
  int64_t stride = getTensorSize(mesh);
  if (stride == 1)
    return mesh.getWorldGroup();
  int64_t size = mesh.getWorldSize() / stride;
  for (StringRef axis : {kShardAxis, kReplicateAxis})
    if (GroupAttr group = mesh.getGroup(axis); group && group.getSize() == size)
      return group;
  MLIRContext *context = mesh.getContext();
  return GroupAttr::get(context, StringAttr::get(context, "data"), size,
                        stride);
}

GroupAttr fsdp::getTensorGroup(ParallelAttr told) {
  MLIRContext *context = told.getContext();
  return GroupAttr::get(context, StringAttr::get(context, kTensorAxis),
                        told.getTp(), 1);
}

GroupAttr fsdp::getContextGroup(ParallelAttr told) {
  MLIRContext *context = told.getContext();
  return GroupAttr::get(context, StringAttr::get(context, kContextAxis),
                        told.getCp(), told.getTp());
}

bool fsdp::isOfStep(Operation *op) {
  if (auto collective = dyn_cast_or_null<CollectiveOpInterface>(op))
    return collective.getPurpose() == Purpose::Step;
  auto shard = dyn_cast_or_null<ShardOp>(op);
  return shard && shard.getPurpose() == Purpose::Step;
}

StateTable::StateTable(ModuleOp module) {
  for (StateOp state : module.getOps<StateOp>()) {
    byName[state.getSymNameAttr()] = state;
    index[state] = states.size();
    states.push_back(state);
  }
  for (StateOp state : states)
    if (PartAttr part = state.getPart())
      if (StateOp flat = lookup(part.getFlat()))
        members[flat].push_back(state);
}

ArrayRef<StateOp> StateTable::getMembers(StateOp flat) const {
  auto it = members.find(flat);
  return it == members.end() ? ArrayRef<StateOp>() : it->second;
}

StateOp StateTable::lookup(StringAttr name) const {
  return byName.lookup(name);
}

SmallVector<BlockArgument> fsdp::addStateArguments(func::FuncOp func,
                                                   ArrayRef<StateOp> states) {
  unsigned at = 0;
  while (at < func.getNumArguments() && func.getArgAttr(at, kStateAttr))
    ++at;
  SmallVector<DictionaryAttr> attributes;
  func.getAllArgAttrs(attributes);
  Builder builder(func.getContext());
  Block &body = func.getBody().front();
  SmallVector<BlockArgument> arguments;
  SmallVector<DictionaryAttr> added;
  for (auto [i, each] : llvm::enumerate(states)) {
    StateOp state = each;
    added.push_back(builder.getDictionaryAttr(builder.getNamedAttr(
        kStateAttr, FlatSymbolRefAttr::get(state.getSymNameAttr()))));
    arguments.push_back(body.insertArgument(
        unsigned(at + i), state.getLocalType(), state.getLoc()));
  }
  attributes.insert(attributes.begin() + at, added.begin(), added.end());
  func.setFunctionType(
      builder.getFunctionType(body.getArgumentTypes(), func.getResultTypes()));
  func.setAllArgAttrs(attributes);
  return arguments;
}

llvm::DenseSet<Value> fsdp::getKept(func::FuncOp func,
                                    const StateTable &states) {
  llvm::DenseSet<Value> kept;
  Operation *terminator = func.getBody().front().getTerminator();
  for (auto [i, value] : llvm::enumerate(terminator->getOperands()))
    if (StateOp state = states.lookup(
            func.getResultAttrOfType<FlatSymbolRefAttr>(i, kStateAttr));
        state && state.getRole() == Role::Gathered)
      kept.insert(value);
  return kept;
}

bool fsdp::isShardSide(Operation *op) {
  return isa<ReplayOp, CopyOp, EncodeOp>(op) || aten::isCast(op);
}

CopyStartOp fsdp::getCopy(Value value) {
  auto wait = value.getDefiningOp<WaitOp>();
  return wait ? wait.getFuture().getDefiningOp<CopyStartOp>() : CopyStartOp();
}

Value fsdp::getShardSideOperand(Value shard) {
  Operation *op = shard.getDefiningOp();
  if (!op)
    return {};
  if (isShardSide(op))
    return op->getOperand(0);
  return getCopy(shard) ? getTransferred(shard) : Value();
}

bool fsdp::isReplayed(Value shard) {
  for (; shard; shard = getShardSideOperand(shard))
    if (shard.getDefiningOp<ReplayOp>())
      return true;
  return false;
}

bool fsdp::isGiven(Value value) {
  while (auto replay = value.getDefiningOp<ReplayOp>())
    value = replay.getInput();
  return isa<BlockArgument>(value);
}

bool fsdp::isReadByGathersOnly(Operation *op) {
  return llvm::all_of(op->getUsers(), [](Operation *user) {
    return isStart(user, Collective::AllGather) || isa<CopyStartOp>(user) ||
           (isShardSide(user) && isReadByGathersOnly(user));
  });
}

BlockArgument fsdp::getUpdatedArgument(Value param) {
  if (auto copy = param.getDefiningOp<CopyOp>())
    param = copy.getInput();
  else if (getCopy(param))
    param = getTransferred(param);
  return dyn_cast<BlockArgument>(param);
}

BlockArgument fsdp::getShardSource(Value shard) {
  while (Operation *op = shard.getDefiningOp()) {
    // A part that was kept of a gathered tensor.
    if (auto part = dyn_cast<ShardOp>(op)) {
      if (isOfStep(part))
        return {};
      if (auto gather = part.getFull().getDefiningOp<AllGatherOp>())
        shard = gather.getShard();
      else if (Value moved = getTransferred(part.getFull()))
        shard = moved;
      else
        return {};
      continue;
    }
    shard = getShardSideOperand(shard);
    if (!shard)
      return {};
  }
  return cast<BlockArgument>(shard);
}

bool fsdp::isReductionTail(Operation *op) {
  if (auto reduce = dyn_cast<AllReduceOp>(op))
    return reduce.getOf().has_value();
  return isa<AccumulateOp, CopyOp, DecodeOp>(op) || aten::isCast(op);
}

SmallVector<Operation *>
fsdp::collectReaders(ArrayRef<Operation *> ops,
                     llvm::function_ref<bool(Operation *)> isWanted) {
  llvm::SmallSetVector<Operation *, 8> found;
  SmallVector<Operation *> worklist(ops);
  while (!worklist.empty())
    for (Operation *reader : worklist.pop_back_val()->getUsers())
      if (isWanted(reader) && found.insert(reader))
        worklist.push_back(reader);
  return found.takeVector();
}

StartOpInterface fsdp::getTransfer(Value value) {
  auto wait = value.getDefiningOp<WaitOp>();
  return wait ? wait.getStart() : StartOpInterface();
}

Value fsdp::getTransferred(Value value) {
  auto wait = value.getDefiningOp<WaitOp>();
  return wait ? wait.getForwarded(cast<OpResult>(value)) : Value();
}

StateOp fsdp::getMovedState(StartOpInterface start, unsigned operand,
                            const StateTable &states) {
  if (FlatSymbolRefAttr of = start.getGradientOf(operand))
    return states.lookup(of);
  BlockArgument source =
      isStart(start, Collective::AllGather) && !isOfStep(start)
          ? getShardSource(start.getInputs()[operand])
          : BlockArgument();
  return source ? states.lookup(start->getParentOfType<func::FuncOp>(),
                                source.getArgNumber())
                : StateOp();
}

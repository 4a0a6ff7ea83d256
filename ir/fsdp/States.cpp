//===- States.cpp - States ------------------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/fsdp/Fsdp.h"
#include "ir/fsdp/NormRows.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace fsdp;

RankedTensorType StateOp::getGlobalType() {
  return cast<RankedTensorType>(getType());
}

RankedTensorType StateOp::getWholeType() {
  RankedTensorType type = getGlobalType();
  std::optional<SplitAttr> split = getSplit();
  if (!split)
    return type;
  SmallVector<int64_t> shape(type.getShape());
  shape[split->getDim()] *= split->getGroup().getSize();
  return RankedTensorType::get(shape, type.getElementType(),
                               type.getEncoding());
}

RankedTensorType StateOp::getModelType() {
  std::optional<QuantizedAttr> quantized = getQuantized();
  if (quantized)
    return quantized->getType();
  RankedTensorType type = getWholeType();
  std::optional<Type> element = getModelElement();
  return element ? RankedTensorType::get(type.getShape(), *element,
                                         type.getEncoding())
                 : type;
}

void StateOp::build(OpBuilder &builder, OperationState &state, StringRef name,
                    Role role, RankedTensorType type) {
  Properties &properties = state.getOrAddProperties<Properties>();
  properties.sym_name = builder.getStringAttr(name);
  properties.role = RoleAttr::get(builder.getContext(), role);
  properties.type = TypeAttr::get(type);
}

RankedTensorType StateOp::getLocalType() {
  PlacementAttrInterface placement = getPlacementAttr();
  return placement ? placement.getLocalType(getGlobalType()) : getGlobalType();
}

ShardingAttr StateOp::getSharding() {
  PlacementAttrInterface placement = getPlacementAttr();
  return placement ? cast_or_null<ShardingAttr>(placement.getSharding())
                   : ShardingAttr();
}

PartAttr StateOp::getPart() {
  return dyn_cast_or_null<PartAttr>(getPlacementAttr());
}

bool StateOp::isFlat() { return isa_and_nonnull<FlatAttr>(getPlacementAttr()); }

WeightAttr StateOp::getWeight() {
  return dyn_cast_or_null<WeightAttr>(getValueAttr());
}

bool StateOp::isOnHost() { return getMemory() == MemorySpace::Host; }

void StateOp::setOnHost(bool isOnHost) {
  setMemoryAttr(isOnHost ? MemorySpaceAttr::get(getContext(), MemorySpace::Host)
                         : MemorySpaceAttr());
}

bool StateOp::isLocal() { return getGradient() && getGradient()->getLocal(); }

void StateOp::setLocal(bool isLocal) {
  Type reduce = getGradient() ? getGradient()->getReduce() : Type();
  setGradientAttr(isLocal || reduce
                      ? GradientRuleAttr::get(getContext(), isLocal, reduce)
                      : GradientRuleAttr());
}

bool StateOp::isReducedInOtherType() {
  return getGradient() && getGradient()->getReduce();
}

Type StateOp::getReduceType() {
  return isReducedInOtherType() ? getGradient()->getReduce()
                                : getGlobalType().getElementType();
}

SmallVector<StringRef> StateOp::getAllNames() {
  SmallVector<StringRef> names;
  if (std::optional<ArrayAttr> all = getNames())
    for (auto name : all->getAsRange<StringAttr>())
      names.push_back(name.getValue());
  else
    names.push_back(getSymName());
  return names;
}

bool fsdp::isAverage(StateOp state) {
  auto init = dyn_cast_if_present<InitAttr>(state.getValueAttr());
  return init && init.getKind() == InitKind::Owner;
}

bool fsdp::isParameter(StateOp state) {
  return state.getRole() == Role::Parameter || state.getRole() == Role::Frozen;
}

// ST-7.
static LogicalResult verifyWeight(StateOp state, WeightAttr weight) {
  if (weight.getFile() < 0)
    return success();
  auto module = state->getParentOfType<ModuleOp>();
  auto files =
      module ? module->getAttrOfType<ArrayAttr>(kWeightsAttr) : ArrayAttr();
  if (!files || weight.getFile() >= int64_t(files.size()))
    return state.emitOpError("expects a weight in one of the files of '")
           << kWeightsAttr << "', found file " << weight.getFile();
  Type element = weight.getType();
  int64_t bits = element.isIntOrFloat() ? element.getIntOrFloatBitWidth() : 0;
  if (auto complex = dyn_cast<ComplexType>(element))
    bits = 2 * complex.getElementType().getIntOrFloatBitWidth();
  int64_t bytes = state.getModelType().getNumElements() * ((bits + 7) / 8);
  if (bytes == weight.getBytes())
    return success();
  // Codes of 4 bits, in a tensor that may be of wider elements.
  if (element.isUnsignedInteger(8) &&
      isa<FloatType>(state.getModelType().getElementType()))
    if (int64_t needed = (bytes + 1) / 2;
        weight.getBytes() >= needed && weight.getBytes() < needed + 8)
      return success();
  return state.emitOpError("expects a weight of ")
         << bytes << " bytes, found " << weight.getBytes();
}

// ST-4, ST-7, ST-8.
static LogicalResult verifyFirstValue(StateOp state) {
  Attribute value = state.getValueAttr();
  if (!value || isa<RecordAttr>(value))
    return success();
  if (auto weight = dyn_cast<WeightAttr>(value))
    return verifyWeight(state, weight);
  RankedTensorType type = state.getModelType();
  Type element = type.getElementType();
  if (isa<InitAttr>(value)) {
    bool isKept = state.getRole() == Role::Optimizer && state.getOf();
    if (isAverage(state) && !isKept)
      return state.emitOpError("expects a parameter that it is kept of");
    if (isa<FloatType>(element))
      return success();
    return state.emitOpError("expects floating-point elements to be computed "
                             "by ")
           << value << ", found " << element;
  }
  if (Type found = cast<TypedAttr>(value).getType();
      found == type || found == element)
    return success();
  return state.emitOpError("expects a first value of type ")
         << element << " or " << type << ", found " << value;
}

// ST-17.
static LogicalResult verifyQuantized(StateOp state) {
  std::optional<QuantizedAttr> quantized = state.getQuantized();
  if (!quantized)
    return success();
  if (state.getRole() != Role::Frozen || state.getSplit() || state.isFlat() ||
      state.getPart())
    return state.emitOpError("expects what is quantized to be a frozen "
                             "parameter that is neither split nor flat");
  if (RankedTensorType type = quantized->getBlocksType();
      state.getGlobalType() != type)
    return state.emitOpError("expects blocks of ")
           << *quantized << " to have type " << type << ", found "
           << state.getGlobalType();
  if (ShardingAttr sharding = state.getSharding();
      sharding && sharding.getDim() != 0)
    return state.emitOpError("expects whole blocks to be cut along dim 0, "
                             "found dim ")
           << sharding.getDim();
  return success();
}

// ST-18.
static LogicalResult verifyModelElement(StateOp state) {
  std::optional<Type> model = state.getModelElement();
  if (!model ||
      ((isParameter(state) || isAverage(state)) && !state.getQuantized() &&
       state.getGlobalType().getElementType().isF32() &&
       (model->isF16() || model->isBF16())))
    return success();
  return state.emitOpError("expects a parameter of f32 to stand for one of f16 "
                           "or bf16, found ")
         << state.getGlobalType().getElementType() << " for " << *model;
}

// ST-2, ST-11, ST-12, ST-14.
static LogicalResult verifyPlacement(StateOp state) {
  if (PlacementAttrInterface placement = state.getPlacementAttr())
    if (failed(placement.verifyType(state.getGlobalType(),
                                    [&] { return state.emitOpError(); })))
      return failure();
  if (state.getPart() && state.getAt())
    return state.emitOpError("expects no 'at' of what is part of a flat state, "
                             "which has it");
  if (state.isFlat() && (state.getNames() || state.getValue()))
    return state.emitOpError("expects names and first values of a flat state "
                             "to be its members', found its own");
  if (!state.getCopied())
    return success();
  auto rows = dyn_cast_or_null<ShardingAttr>(state.getPlacementAttr());
  if (isParameter(state) && state.getBucket() && rows && rows.getDim() == 0 &&
      state.getGlobalType().getNumElements() != 0)
    return success();
  return state.emitOpError("expects a parameter with elements, in a bucket and "
                           "sharded along dim 0, to be 'copied'");
}

// ST-9, ST-10.
static LogicalResult verifyGradientRule(StateOp state) {
  if (!state.getGradient())
    return success();
  if (state.getRole() != Role::Parameter)
    return state.emitOpError("expects a parameter to have a 'gradient' rule");
  if (state.isLocal() && state.getPlacement())
    return state.emitOpError("expects an unsharded parameter to be 'local'");
  Type reduce = state.getReduceType();
  Type own = state.getGlobalType().getElementType();
  if (state.isReducedInOtherType() &&
      (!isa<FloatType>(reduce) || reduce == own))
    return state.emitOpError("expects 'reduce' of a parameter to be a "
                             "floating-point type other than its own ")
           << own << ", found " << reduce;
  return success();
}

LogicalResult StateOp::verify() {
  // ST-1.
  auto type = dyn_cast<RankedTensorType>(getType());
  if (!type || !type.hasStaticShape())
    return emitOpError("expects a ranked tensor of static shape, found ")
           << getType();
  // ST-5.
  if (std::optional<ArrayAttr> names = getNames()) {
    if (names->empty() ||
        cast<StringAttr>(names->getValue().front()) != getSymNameAttr())
      return emitOpError("expects its own name first among its names, found ")
             << *names;
  }
  // ST-6.
  if (std::optional<uint64_t> at = getAt(); at && int64_t(*at) < 0)
    return emitOpError("expects an address of at least 0, found ")
           << int64_t(*at);
  // ST-15.
  if (std::optional<uint64_t> group = getGroup();
      group && (!isParameter(*this) || int64_t(*group) < 1))
    return emitOpError("expects 'group' to be a number from 1 of a parameter's "
                       "group, found ")
           << int64_t(*group);
  // ST-16, in front of all that asks for the whole type.
  if (std::optional<SplitAttr> split = getSplit()) {
    if (isFlat())
      return emitOpError("expects the members of a flat state to be split, not "
                         "the state");
    if (split->getDim() < 0 || split->getDim() >= type.getRank())
      return emitOpError("expects a split dim below its rank ")
             << type.getRank() << ", found dim " << split->getDim();
    if (int64_t rows = type.getDimSize(split->getDim());
        rows % split->getBlocks() != 0)
      return emitOpError("expects a part of whole blocks along dim ")
             << split->getDim() << ", found " << rows << " rows in "
             << split->getBlocks();
  }
  if (failed(verifyQuantized(*this)) || failed(verifyModelElement(*this)) ||
      failed(verifyFirstValue(*this)) || failed(verifyGradientRule(*this)))
    return failure();
  return verifyPlacement(*this);
}

StringRef fsdp::getDevice(ModuleOp module) {
  auto device = module->getAttrOfType<StringAttr>(kDeviceAttr);
  return device ? device.getValue() : "cpu";
}

int64_t fsdp::getMicroBatches(ModuleOp module) {
  auto count = module->getAttrOfType<IntegerAttr>(kMicroBatchesAttr);
  return count ? count.getInt() : 1;
}

/// Whether `attr` is on a module and an array of `Element`, called `what`.
template <typename Element>
static LogicalResult verifyArray(Operation *op, NamedAttribute attr,
                                 StringRef what) {
  auto list = dyn_cast<ArrayAttr>(attr.getValue());
  if (isa<ModuleOp>(op) && list && llvm::all_of(list, llvm::IsaPred<Element>))
    return success();
  return op->emitError("'") << attr.getName().getValue()
                            << "' expects a module and an array of " << what;
}

// Checks the bindings of all programs once a module: a check for each argument
// would look every symbol up linearly.
LogicalResult FsdpDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attr) {
  if (attr.getName() == kMeshAttr) {
    auto module = dyn_cast<ModuleOp>(op);
    if (!module || !isa<MeshAttr>(attr.getValue()))
      return op->emitError("'fsdp.mesh' expects a module and a #fsdp.mesh");
    return verifyBindings(module);
  }
  if (attr.getName() == kModelAttr) {
    auto module = dyn_cast<ModuleOp>(op);
    if (!module || !isa<ModelAttr>(attr.getValue()))
      return op->emitError("'fsdp.model' expects a module and a #fsdp.model");
    // With a mesh as well, that attribute's check has done it.
    return op->hasAttr(kMeshAttr) ? success() : verifyBindings(module);
  }
  if (attr.getName() == kDeviceAttr &&
      !(isa<ModuleOp>(op) && isa<StringAttr>(attr.getValue())))
    return op->emitError("'fsdp.device' expects a module and a string");
  if (attr.getName() == kDivideFactorAttr &&
      !(isa<ModuleOp>(op) && isa<FloatAttr>(attr.getValue())))
    return op->emitError("'fsdp.gradient_divide_factor' expects a module and a "
                         "number");
  if (attr.getName() == kOptimizerDivisorAttr &&
      !(isa<ModuleOp>(op) && isa<FloatAttr>(attr.getValue())))
    return op->emitError("'fsdp.optimizer_divisor' expects a module and a "
                         "number");
  if (attr.getName() == kCastsAttr || attr.getName() == kAttentionAttr ||
      attr.getName() == kNormsAttr)
    return verifyArray<DictionaryAttr>(op, attr, "dictionaries");
  if (attr.getName() == kAdaptersAttr)
    return verifyArray<AdapterAttr>(op, attr, "#fsdp.adapter");
  if (attr.getName() == kCheckpointsAttr)
    return verifyArray<StringAttr>(op, attr, "paths of modules");
  if (attr.getName() == kMicroBatchesAttr) {
    auto count = dyn_cast<IntegerAttr>(attr.getValue());
    if (!isa<ModuleOp>(op) || !count || !count.getType().isInteger(64) ||
        count.getInt() < 2)
      return op->emitError("'fsdp.micro_batches' expects a module and a number "
                           "from 2 (i64)");
    return success();
  }
  if (attr.getName() == kModelFlopsAttr) {
    auto flops = dyn_cast<FloatAttr>(attr.getValue());
    if (!isa<func::FuncOp>(op) || !flops || !flops.getType().isF64() ||
        !flops.getValue().isFinite() || flops.getValue().isNegative())
      return op->emitError("'fsdp.model_flops' expects a program and a number "
                           "from 0 (f64)");
    return success();
  }
  if (attr.getName() == kWeightsAttr)
    return verifyArray<WeightsFileAttr>(op, attr, "#fsdp.weights_file");
  if (attr.getName() == kAtAttr && !isa<DenseI64ArrayAttr>(attr.getValue()))
    return op->emitError("'fsdp.at' expects array<i64: ...>, found ")
           << attr.getValue();
  if (attr.getName() == ProgramAttr::name)
    return verifyProgram(op, attr);
  return verifySetting(op, attr);
}

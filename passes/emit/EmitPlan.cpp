//===- EmitPlan.cpp - From a planned module to an artifact ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/emit/EmitPlan.h"

#include "ir/aten/Aten.h"
#include "passes/analysis/Mesh.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/States.h"
#include "passes/emit/EmitProgram.h"
#include "passes/emit/EmitRun.h"
#include "passes/emit/PlanEnums.h"
#include "passes/emit/Types.h"
#include "passes/plan/MemoryUse.h"
#include "plan/Collectives.h"
#include "plan/FirstValues.h"
#include "plan/Version.h"
#include "plan/Writer.h"
#include "support/Error.h"

using namespace mlir;
using namespace fsdp;

std::unique_ptr<plan::RecordT> fsdp::emitRecord(RecordAttr record) {
  auto result = std::make_unique<plan::RecordT>();
  result->name = record.getName().str();
  result->offset = record.getOffset();
  result->bytes = record.getBytes();
  result->crc = static_cast<uint32_t>(record.getCrc());
  result->strides = record.getStrides();
  return result;
}

static std::unique_ptr<plan::InitializerT> emitInitializer(InitAttr init) {
  auto result = std::make_unique<plan::InitializerT>();
  result->kind = toPlan(init.getKind());
  ArrayRef<double> arguments = init.getArguments();
  result->arguments.assign(arguments.begin(), arguments.end());
  return result;
}

/// Null if the file's type is one that an artifact cannot name.
static std::unique_ptr<plan::WeightT> emitWeight(WeightAttr weight) {
  auto result = std::make_unique<plan::WeightT>();
  for (StringAttr name : weight.getNames())
    result->names.push_back(name.str());
  result->file = static_cast<int32_t>(weight.getFile());
  if (result->file < 0)
    return result;
  std::optional<plan::DType> dtype = toDType(weight.getType());
  if (!dtype)
    return nullptr;
  result->offset = weight.getOffset();
  result->bytes = weight.getBytes();
  result->dtype = *dtype;
  return result;
}

static LogicalResult emitFirstValue(StateOp state, plan::StateT &result) {
  Attribute value = state.getValueAttr();
  if (auto source = dyn_cast<RecordAttr>(value)) {
    result.source = emitRecord(source);
    return success();
  }
  if (auto weight = dyn_cast<WeightAttr>(value)) {
    if ((result.weight = emitWeight(weight)))
      return success();
    return state.emitOpError("has a weight of an element type that an artifact "
                             "cannot hold: ")
           << weight.getType();
  }
  if (auto computed = dyn_cast<InitAttr>(value)) {
    result.initializer = emitInitializer(computed);
    RankedTensorType type = state.getModelType();
    std::optional<plan::DType> dtype = toDType(type.getElementType());
    if (auto problem = checkInitializer(*result.initializer, type.getShape(),
                                        dtype.value_or(result.dtype)))
      return state.emitOpError("has a first value that ") << *problem;
    return success();
  }
  std::optional<std::vector<uint8_t>> bytes = toBytes(value);
  if (!bytes)
    return state.emitOpError("has a first value that is no ")
           << state.getModelType().getElementType() << ": " << value;
  result.init = std::move(*bytes);
  return success();
}

static LogicalResult emitState(StateOp state, const StateTable &table,
                               EmitContext &context) {
  auto result = std::make_unique<plan::StateT>();
  RankedTensorType type = state.getGlobalType();
  std::optional<plan::DType> dtype = toDType(type.getElementType());
  if (!dtype)
    return state.emitOpError("has an element type that an artifact cannot "
                             "hold: ")
           << type.getElementType();
  result->name = state.getSymName().str();
  for (StringRef name : state.getAllNames())
    if (name != state.getSymName())
      result->aliases.push_back(name.str());
  result->role = toPlan(state.getRole());
  result->dtype = *dtype;
  result->shape = type.getShape();
  if (std::optional<SplitAttr> split = state.getSplit()) {
    result->split_dim = static_cast<int32_t>(split->getDim());
    result->split_group = context.getGroup(split->getGroup());
    result->split_blocks = static_cast<uint32_t>(split->getBlocks());
  }
  if (std::optional<Type> model = state.getModelElement()) {
    result->is_widened = true;
    result->model_dtype = toDType(*model).value_or(*dtype);
  }
  if (std::optional<QuantizedAttr> quantized = state.getQuantized()) {
    result->quantized = std::make_unique<plan::QuantizedT>();
    result->quantized->kind = toPlan(quantized->getKind());
    result->quantized->block_size =
        static_cast<uint32_t>(quantized->getBlockSize());
    result->quantized->double_quant = quantized->getDoubleQuant();
    result->quantized->dtype = *toDType(quantized->getType().getElementType());
    result->quantized->shape = quantized->getType().getShape();
  }
  if (ShardingAttr sharding = state.getSharding()) {
    result->shard_dim = static_cast<int32_t>(sharding.getDim());
    result->group = context.getGroup(sharding.getGroup());
  }
  result->memory =
      state.isOnHost() ? plan::MemorySpace::host : plan::MemorySpace::device;
  result->layout = state.isFlat() ? plan::Layout::flat : plan::Layout::rows;
  if (PartAttr part = state.getPart()) {
    result->flat =
        static_cast<int32_t>(table.getIndex(table.lookup(part.getFlat())));
    result->flat_offset = static_cast<uint64_t>(part.getOffset());
  } else {
    result->bytes = aten::getStorageBytes(state.getLocalType());
    result->offset = *state.getAt();
  }
  if (state.getValueAttr() && failed(emitFirstValue(state, *result)))
    return failure();
  if (auto of = state.getOfAttr())
    result->of = static_cast<int32_t>(table.getIndex(table.lookup(of)));
  result->volatile_ = state.getVolatile_();
  result->bucket = state.getBucket().value_or("").str();
  context.plan.states.push_back(std::move(result));
  return success();
}

static std::unique_ptr<plan::MemoryT> emitSpace(const SpaceUse &use) {
  auto result = std::make_unique<plan::MemoryT>();
  plan::MemoryT &memory = *result;
  memory.peak = use.peak;
  memory.states = use.states;
  memory.params = use.params;
  memory.optimizer = use.optimizer;
  memory.buffers = use.buffers;
  memory.inputs = use.transient.inputs;
  memory.activations = use.transient.activations;
  memory.gathered = use.transient.gathered;
  memory.grads = use.transient.grads;
  return result;
}

static void emitMemory(ModuleOp module, const MemoryUse &use,
                       plan::PlanT &plan) {
  plan.memory = emitSpace(use);
  plan.memory->scratch_bound = use.scratchBound.value_or(0);
  plan.memory->scratch_unknown = use.scratchUnknown;
  if (!use.host)
    return;
  plan.host = emitSpace(*use.host);
  plan.pins_host = getSetting<OffloadAttr>(module).getPinMemory();
}

static void emitWeightsFiles(ModuleOp module, const EmitOptions &options,
                             plan::PlanT &plan) {
  auto files = module->getAttrOfType<ArrayAttr>(kWeightsAttr);
  if (!files)
    return;
  for (auto file : files.getAsRange<WeightsFileAttr>()) {
    plan.weights.push_back(std::make_unique<plan::WeightsFileT>());
    plan.weights.back()->path = options.nameFile(file.getPath().getValue());
    plan.weights.back()->bytes = file.getBytes();
    plan.weights.back()->header = file.getHeader().str();
  }
}

static LogicalResult emitAdapters(ModuleOp module, const StateTable &table,
                                  plan::PlanT &plan) {
  auto adapters = module->getAttrOfType<ArrayAttr>(kAdaptersAttr);
  if (!adapters)
    return success();
  for (auto adapter : adapters.getAsRange<AdapterAttr>()) {
    auto result = std::make_unique<plan::AdapterT>();
    int64_t base = -1, down = -1, up = -1, magnitude = -1, firstDown = -1,
            firstUp = -1;
    for (auto [name, number] : {std::pair(adapter.getBase(), &base),
                                {adapter.getDown(), &down},
                                {adapter.getUp(), &up},
                                {adapter.getMagnitude(), &magnitude},
                                {adapter.getFirstDown(), &firstDown},
                                {adapter.getFirstUp(), &firstUp}}) {
      if (!name)
        continue;
      StateOp state = table.lookup(name);
      if (!state)
        return module.emitError("expected a state of each matrix of an "
                                "adapter, found none called '")
               << name.getValue() << "'";
      *number = table.getIndex(state);
    }
    auto first = dyn_cast_or_null<InitAttr>(
        table.lookup(adapter.getDown()).getValueAttr());
    if (first && first.getKind() == InitKind::Loftq &&
        !table.lookup(adapter.getBase()).getQuantized())
      return module.emitError("'")
             << adapter.getDown().getValue()
             << "' begins with what quantize loses of '"
             << adapter.getBase().getValue()
             << "', which is not quantized; leave its layer out with adapter: "
                "{skip_modules: …}, or quantize it, too";
    result->base = static_cast<uint32_t>(base);
    result->down = static_cast<uint32_t>(down);
    result->up = static_cast<uint32_t>(up);
    result->magnitude = static_cast<int32_t>(magnitude);
    result->first_down = static_cast<int32_t>(firstDown);
    result->first_up = static_cast<int32_t>(firstUp);
    result->experts = static_cast<uint32_t>(adapter.getExperts());
    result->scale = adapter.getScale().getValueAsDouble();
    result->base_is_in_by_out = adapter.getBaseIsInByOut();
    plan.adapters.push_back(std::move(result));
  }
  if (auto asked = module->getAttrOfType<AdapterSettingsAttr>(
          AdapterSettingsAttr::name)) {
    auto settings = std::make_unique<plan::AdapterSettingsT>();
    settings->rank = static_cast<uint32_t>(asked.getRank());
    settings->alpha = asked.getAlpha().getValueAsDouble();
    settings->dropout = asked.getDropout().getValueAsDouble();
    settings->rank_stabilized = asked.getRankStabilized();
    settings->bias = toPlan(asked.getBias());
    plan.adapter_settings = std::move(settings);
  }
  return success();
}

LogicalResult fsdp::emitPlan(ModuleOp module, const EmitOptions &options,
                             plan::PlanT &plan) {
  FailureOr<MemoryUse> use = MemoryUse::fromAttribute(module);
  if (failed(use))
    return module.emitError("is not planned; run fsdp-plan-pipeline before an "
                            "artifact is written");
  plan = {};
  plan.compiler = kCompilerVersion;
  if (auto model = module->getAttrOfType<ModelAttr>(kModelAttr)) {
    plan.model = std::make_unique<plan::ModelT>();
    plan.model->path = options.nameFile(model.getPath().getValue());
    plan.model->bytes = model.getBytes();
    plan.model->directory = model.getDirectory().str();
    plan.model->torch = model.getTorch().str();
  }
  emitWeightsFiles(module, options, plan);
  EmitContext context(plan);
  if (auto mesh = module->getAttrOfType<MeshAttr>(kMeshAttr)) {
    for (auto [name, size] :
         llvm::zip_equal(mesh.getNames(), mesh.getSizes())) {
      plan.mesh.push_back(std::make_unique<plan::AxisT>());
      plan.mesh.back()->name = name.str();
      plan.mesh.back()->size = static_cast<uint32_t>(size);
    }
    plan.data_parallel =
        static_cast<uint32_t>(getDataGroup(mesh).getSize() /
                              getSetting<ParallelAttr>(module).getCp());
  }
  StateTable table(module);
  for (StateOp state : table.getStates())
    if (failed(emitState(state, table, context)))
      return failure();
  if (failed(emitAdapters(module, table, plan)))
    return failure();
  emitMemory(module, *use, plan);
  emitRun(module, table, options, plan);
  for (func::FuncOp program : getPrograms(module))
    if (failed(emitProgram(program, table, context)))
      return failure();
  plan.collectives_hash = hashCollectives(plan);
  return success();
}

FailureOr<std::string> fsdp::emitArtifact(ModuleOp module,
                                          const EmitOptions &options) {
  plan::PlanT plan;
  if (failed(emitPlan(module, options, plan)))
    return failure();
  options.complete(plan);
  try {
    return serializePlan(plan);
  } catch (const Error &error) {
    return module.emitError("gives a plan that does not hold together: ")
           << error.what();
  }
}

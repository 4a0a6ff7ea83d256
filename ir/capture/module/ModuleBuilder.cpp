//===- ModuleBuilder.cpp - A joint graph as a program ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/module/ModuleBuilder.h"
#include "ir/aten/Aten.h"
#include "ir/capture/joint/Draws.h"
#include "ir/capture/module/AttributeBuilder.h"
#include "ir/capture/module/ModuleFacts.h"
#include "ir/capture/module/NormRows.h"
#include "ir/capture/request/PrecisionAttr.h"
#include "ir/fsdp/Fsdp.h"
#include "ir/fsdp/NormRows.h"
#include "support/Error.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Support/Path.h"

#include <torch/version.h>

using namespace mlir;
using namespace fsdp;
using namespace fsdp::capture;

namespace {

/// Builds the table of states and the function of one graph.
class ProgramBuilder {
public:
  ProgramBuilder(mlir::ModuleOp module, const JointGraph &graph);

  void buildTable();
  void warnAboutCheckpoints();
  func::FuncOp buildFunction(ProgramAttr program);

private:
  void buildState(const State &state);
  NamedAttribute getBinding(const capture::Result &result);
  void buildConstant(const Constant &constant);
  void buildNode(const capture::Node &node);
  void buildDraw(const capture::Node &node);
  RankedTensorType getType(const capture::TensorType &type);
  RecordAttr getRecord(const Record &record);
  mlir::Location getLocation(LocationId id);
  NamedAttribute getName(StringRef key, StringRef value) {
    return builder.getNamedAttr(key, builder.getStringAttr(value));
  }
  NamedAttribute getSymbol(StringRef key, const State &state) {
    return builder.getNamedAttr(
        key, FlatSymbolRefAttr::get(builder.getContext(), state.names.front()));
  }

  const JointGraph &graph;
  OpBuilder builder;
  mlir::Location unknown;
  std::vector<Value> values; // by ValueId
  std::vector<mlir::Location> locations;
};

RankedTensorType ProgramBuilder::getType(const capture::TensorType &type) {
  return aten::getTensorType(type.sizes, type.strides,
                             getElementType(builder, type.dtype));
}

RecordAttr ProgramBuilder::getRecord(const Record &record) {
  return RecordAttr::get(builder.getContext(),
                         builder.getStringAttr(record.name), record.offset,
                         record.bytes, record.crc, record.strides);
}

mlir::Location ProgramBuilder::getLocation(LocationId id) {
  return id == kNoLocation ? unknown : locations[id];
}

/// Where the state starts: as initializers of the config would say it.
Attribute getFirst(Builder &builder, const State &state) {
  const FirstValue &first = *state.first;
  struct Row {
    FirstValue::Kind kind;
    InitKind init;
    size_t numbers;
  };
  static constexpr Row kRows[] = {
      {FirstValue::Kind::Uniform, InitKind::Uniform, 2},
      {FirstValue::Kind::Normal, InitKind::Normal, 2},
      {FirstValue::Kind::Pissa, InitKind::Pissa, 1},
      {FirstValue::Kind::Loftq, InitKind::Loftq, 0},
      {FirstValue::Kind::Norms, InitKind::Norms, 0}};
  const auto *row = llvm::find_if(
      kRows, [&](const Row &row) { return row.kind == first.kind; });
  if (row == std::end(kRows))
    return builder.getFloatAttr(getElementType(builder, state.type.dtype), 0);
  double numbers[] = {first.a, first.b};
  return InitAttr::get(
      builder.getContext(), row->init,
      builder.getDenseF64ArrayAttr(ArrayRef(numbers).take_front(row->numbers)));
}

void ProgramBuilder::buildState(const State &state) {
  static constexpr std::pair<StateRole, Role> roles[] = {
      {StateRole::Parameter, Role::Parameter},
      {StateRole::Frozen, Role::Frozen},
      {StateRole::Buffer, Role::Buffer},
      {StateRole::Constant, Role::Constant},
      {StateRole::Random, Role::Random},
      {StateRole::LossScale, Role::LossScale}};
  Role role = llvm::find_if(roles, [&](const auto &row) {
                return row.first == state.role;
              })->second;
  ArrayAttr names;
  if (state.names.size() > 1)
    names = builder.getStrArrayAttr(
        SmallVector<StringRef>(state.names.begin(), state.names.end()));
  StateOp op = StateOp::create(
      builder, NameLoc::get(builder.getStringAttr(state.names.front())),
      state.names.front(), role, getType(state.type));
  op.setNamesAttr(names);
  if (state.source)
    op.setValueAttr(getRecord(*state.source));
  else if (state.init)
    op.setValueAttr(builder.getF32FloatAttr(float(*state.init)));
  else if (state.first)
    op.setValueAttr(getFirst(builder, state));
  op.setVolatile_(state.isVolatile && state.role == StateRole::Buffer);
  if (state.modelDtype)
    op.setModelElementAttr(
        TypeAttr::get(getElementType(builder, *state.modelDtype)));
  if (state.reduceDtype)
    op.setGradientAttr(
        GradientRuleAttr::get(builder.getContext(), /*local=*/false,
                              getElementType(builder, *state.reduceDtype)));
  if (llvm::is_contained(graph.withoutGradient, state.names.front()))
    emitRemark(op.getLoc())
        << "parameter '" << state.names.front()
        << "' gets no gradient: the loss does not depend on it, so it stays as "
           "it is, as in PyTorch";
  if (llvm::is_contained(graph.written, state.names.front()))
    emitRemark(op.getLoc())
        << "parameter '" << state.names.front()
        << "' is frozen, but the model writes it: each rank keeps it whole, as "
           "a buffer";
}

void ProgramBuilder::buildTable() {
  for (const ModuleInfo &module : graph.modules)
    ModuleInfoOp::create(builder, unknown, builder.getStringAttr(module.path),
                         builder.getStringAttr(module.className));
  for (const State &state : graph.states)
    buildState(state);
  for (const std::string &line : graph.accepted)
    emitRemark(unknown) << line;
  warnAboutCheckpoints();
}

/// What a region of the model's own forward is, no path says.
void ProgramBuilder::warnAboutCheckpoints() {
  if (llvm::is_contained(graph.checkpoints, std::string()))
    emitWarning(unknown)
        << "the model's own forward checkpoints a part of itself, which has no "
           "effect here: its activations are kept, and values are the same; "
           "checkpoint modules instead, or name them in "
           "activation_checkpointing: {modules: ...}";
}

NamedAttribute ProgramBuilder::getBinding(const capture::Result &result) {
  switch (result.kind) {
  case capture::Result::Kind::Loss:
    return getName(kOutputAttr, "loss");
  case capture::Result::Kind::Output:
    return getName(kOutputAttr, graph.outputs[result.index].name);
  case capture::Result::Kind::State:
    return getSymbol(kStateAttr, graph.states[result.index]);
  case capture::Result::Kind::Gradient:
    return getSymbol(kGradientAttr, graph.states[result.index]);
  }
  llvm_unreachable("all kinds of results are bound");
}

func::FuncOp ProgramBuilder::buildFunction(ProgramAttr program) {
  SmallVector<Type> argumentTypes, resultTypes;
  SmallVector<DictionaryAttr> argumentAttrs, resultAttrs;
  SmallVector<mlir::Location> argumentLocations;
  for (const State &state : graph.states) {
    argumentTypes.push_back(getType(state.type));
    argumentAttrs.push_back(
        builder.getDictionaryAttr(getSymbol(kStateAttr, state)));
    argumentLocations.push_back(
        NameLoc::get(builder.getStringAttr(state.names.front())));
  }
  for (const Input &input : graph.inputs) {
    argumentTypes.push_back(getType(input.type));
    SmallVector<NamedAttribute> attrs = {getName(kInputAttr, input.name)};
    if (input.sample)
      attrs.push_back(
          builder.getNamedAttr(kSampleAttr, getRecord(*input.sample)));
    argumentAttrs.push_back(builder.getDictionaryAttr(attrs));
    argumentLocations.push_back(
        NameLoc::get(builder.getStringAttr(input.name)));
  }
  for (const capture::Result &result : graph.results) {
    resultTypes.push_back(getType(graph.values[result.value]));
    resultAttrs.push_back(builder.getDictionaryAttr(getBinding(result)));
  }
  auto func = func::FuncOp::create(
      builder, unknown, program.getSymbol(),
      builder.getFunctionType(argumentTypes, resultTypes),
      builder.getNamedAttr(kCapturedAttr, builder.getUnitAttr()),
      argumentAttrs);
  setProgram(func, program);
  func.setAllResultAttrs(resultAttrs);
  Block *block = func.addEntryBlock();
  for (auto [argument, location] :
       llvm::zip_equal(block->getArguments(), argumentLocations))
    argument.setLoc(location);

  builder.setInsertionPointToStart(block);
  values.resize(graph.values.size());
  for (size_t i = 0; i < graph.states.size(); ++i)
    values[graph.states[i].value] = block->getArgument(i);
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    values[graph.inputs[i].value] = block->getArgument(graph.states.size() + i);
  for (const Constant &constant : graph.constants)
    buildConstant(constant);
  for (const capture::Node &node : graph.nodes)
    buildNode(node);
  SmallVector<Value> results;
  for (const capture::Result &result : graph.results)
    results.push_back(values[result.value]);
  func::ReturnOp::create(builder, unknown, results);
  return func;
}

void ProgramBuilder::buildConstant(const Constant &constant) {
  auto op = ConstantOp::create(
      builder, unknown,
      getType(capture::TensorType::of(constant.data.contiguous())),
      getElements(builder, constant.data),
      constant.wrapped ? builder.getUnitAttr() : UnitAttr());
  values[constant.value] = op.getResult();
}

/// The arguments are those of meta/Draw.cpp.
void ProgramBuilder::buildDraw(const capture::Node &node) {
  const std::vector<capture::Argument> &arguments = node.arguments;
  SmallVector<Value> given;
  for (ValueId each : arguments[1].tensors)
    given.push_back(values[each]);
  std::vector<double> numbers = arguments[3].value.toDoubleVector();
  std::vector<int64_t> range = arguments[4].value.toIntVector();
  values[node.results[0]] = DrawOp::create(
      builder, getLocation(node.location),
      getType(graph.values[node.results[0]]), values[arguments[0].tensors[0]],
      given, *symbolizeDistribution(arguments[2].value.toStringRef()),
      numbers.empty() ? ArrayAttr() : builder.getF64ArrayAttr(numbers),
      range.empty() ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr(range),
      arguments[5].value.toInt());
}

void ProgramBuilder::buildNode(const capture::Node &node) {
  if (node.op.operator_name().name == kDrawOperator)
    return buildDraw(node);
  std::string name = "aten." + node.op.operator_name().name.substr(6);
  if (const std::string &overload = node.op.operator_name().overload_name;
      !overload.empty())
    name += "." + overload;
  const aten::Schema *schema = aten::lookupSchema(name);
  if (!schema)
    throw Error(ErrorId::UnknownOperator,
                getOperatorName(node.op) +
                    " is not in the compiler's table of operators, which is "
                    "that of PyTorch " +
                    aten::getTableVersion().str());
  SmallVector<aten::TensorArgument> tensors;
  std::vector<SmallVector<Value>> lists(node.arguments.size());
  SmallVector<NamedAttribute> attributes;
  for (auto [i, argument] : llvm::enumerate(node.arguments)) {
    for (ValueId tensor : argument.tensors)
      lists[i].push_back(tensor == kNoValue ? Value() : values[tensor]);
    switch (argument.kind) {
    case capture::Argument::Kind::Tensor:
      tensors.push_back(lists[i].front());
      break;
    case capture::Argument::Kind::List:
      tensors.push_back(ArrayRef<Value>(lists[i]));
      break;
    case capture::Argument::Kind::Static:
      if (Attribute value =
              getAttribute(builder, schema->arguments[i], argument.value))
        attributes.push_back(
            builder.getNamedAttr(schema->arguments[i].name, value));
      break;
    }
  }
  SmallVector<Type> types;
  for (ValueId result : node.results)
    types.push_back(result == kNoValue ? Type(builder.getNoneType())
                                       : getType(graph.values[result]));
  Operation *op = aten::buildAtenOp(builder, getLocation(node.location), name,
                                    tensors, attributes, types);
  for (auto [result, value] : llvm::zip_equal(node.results, op->getResults()))
    if (result != kNoValue)
      values[result] = value;
}

ProgramBuilder::ProgramBuilder(mlir::ModuleOp module, const JointGraph &graph)
    : graph(graph), builder(module.getContext()),
      unknown(builder.getUnknownLoc()) {
  builder.setInsertionPointToEnd(module.getBody());
  for (const capture::Location &location : graph.locations) {
    mlir::Location place =
        location.file.empty()
            ? unknown
            : FileLineColLoc::get(builder.getContext(), location.file,
                                  location.line, 0);
    locations.push_back(
        location.module.empty()
            ? place
            : NameLoc::get(builder.getStringAttr(location.module), place));
  }
}

/// Programs of one module share the table of states.
void verifySameStates(const CapturedProgram &first,
                      const CapturedProgram &other) {
  auto refuse = [&](const std::string &what) {
    throw Error(ErrorId::InputNotKnown,
                what + "; programs of one artifact share their states: compile "
                       "these shapes to artifacts of their own");
  };
  const std::vector<State> &mine = first.graph.states;
  const std::vector<State> &theirs = other.graph.states;
  for (size_t i = 0; i < std::min(mine.size(), theirs.size()); ++i) {
    const State &a = mine[i], &b = theirs[i];
    if (a.names != b.names || a.type != b.type)
      refuse("at " + other.label + " the state '" + b.names.front() +
             "' is not what '" + a.names.front() + "' is at " + first.label);
    if (a.role != b.role) {
      bool isFirst = a.role == StateRole::Parameter;
      refuse("the loss depends on '" + a.names.front() + "' at " +
             (isFirst ? first : other).label + ", but not at " +
             (isFirst ? other : first).label);
    }
  }
  if (mine.size() != theirs.size())
    refuse("at " + first.label + " the model has " +
           std::to_string(mine.size()) + " states, at " + other.label + " " +
           std::to_string(theirs.size()));
}

/// Results are written in place later on, each in storage of its own; merging
/// equal computations may have made two of them one.
void separateResults(func::FuncOp func) {
  Operation *terminator = func.getBody().front().getTerminator();
  OpBuilder builder(terminator);
  llvm::SmallPtrSet<Value, 8> seen;
  for (OpOperand &operand : terminator->getOpOperands()) {
    if (seen.insert(operand.get()).second)
      continue;
    // Where it is computed: what belongs to forward stays there.
    builder.setInsertionPointAfterValue(operand.get());
    Operation *copy = aten::buildAtenOp(
        builder, operand.get().getLoc(), "aten.clone", {operand.get()},
        builder.getNamedAttr("memory_format",
                             builder.getStringAttr("contiguous")),
        operand.get().getType());
    operand.set(copy->getResult(0));
    seen.insert(copy->getResult(0));
  }
}

} // namespace

OwningOpRef<mlir::ModuleOp>
fsdp::capture::buildModule(MLIRContext &context,
                           llvm::ArrayRef<CapturedProgram> programs) {
  context.loadDialect<func::FuncDialect, FsdpDialect, aten::AtenDialect>();
  Builder builder(&context);
  OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(builder.getUnknownLoc(), "model");
  const ModelFile &file = programs.front().graph.file;
  (*module)->setAttr(kModelAttr,
                     ModelAttr::get(&context, builder.getStringAttr(file.path),
                                    file.bytes,
                                    builder.getStringAttr(file.directory),
                                    builder.getStringAttr(TORCH_VERSION)));
  const JointGraph &first = programs.front().graph;
  if (auto precision =
          getPrecisionAttr(builder.getContext(), first.precision)) {
    (*module)->setAttr(PrecisionAttr::name, precision);
    (*module)->setAttr(kCastsAttr, describeCasts(builder, first));
  }
  if (!first.attention.empty())
    (*module)->setAttr(kAttentionAttr, describeAttention(builder, first));
  if (first.adapters)
    setAdapters(*module, *first.adapters);
  if (!first.noiseSites.empty())
    setNoise(*module, first);
  for (const CapturedProgram &program : programs)
    if (program.graph.noiseSites != first.noiseSites)
      throw Error(ErrorId::ConfigNotSupported,
                  "'neftune_noise_alpha' is for models that draw alike at all "
                  "shapes; compile one shape at a time");
  if (first.norms)
    (*module)->setAttr(kNormsAttr, describeNorms(builder, *first.norms));
  llvm::SetVector<Attribute> checkpoints;
  for (const std::string &path : first.checkpoints)
    if (!path.empty())
      checkpoints.insert(builder.getStringAttr(path));
  if (!checkpoints.empty())
    (*module)->setAttr(kCheckpointsAttr,
                       builder.getArrayAttr(checkpoints.getArrayRef()));
  for (const CapturedProgram &program : programs) {
    ProgramBuilder programBuilder(*module, program.graph);
    if (&program == &programs.front())
      programBuilder.buildTable();
    else
      verifySameStates(programs.front(), program);
    programBuilder.buildFunction(ProgramAttr::get(
        &context,
        program.graph.isInference ? ProgramKind::Infer : ProgramKind::Train,
        StepPart::Whole,
        program.label.empty() ? StringAttr()
                              : builder.getStringAttr(program.label),
        /*reference=*/false));
  }
  PassManager manager(&context);
  manager.addNestedPass<func::FuncOp>(createCSEPass());
  if (failed(manager.run(*module)))
    throw Error(ErrorId::StageRefused,
                "the captured program does not verify; this is a defect of "
                "the compiler, please report it with the model");
  module->walk(separateResults);
  return module;
}

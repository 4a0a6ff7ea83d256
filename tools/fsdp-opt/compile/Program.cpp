//===- Program.cpp - Programs from and to files -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/compile/Program.h"

#include "ir/capture/request/PrecisionAttr.h"
#include "ir/fsdp/Fsdp.h"
#include "ir/fsdp/NormRows.h"
#include "passes/analysis/LossWeight.h"
#include "passes/analysis/Programs.h"
#include "tools/fsdp-opt/compile/ConfigNotes.h"
#include "tools/fsdp-opt/compile/DataInputs.h"
#include "tools/fsdp-opt/compile/Mode.h"
#include "tools/fsdp-opt/input/CaptureLoader.h"
#include "tools/fsdp-opt/input/Diagnostics.h"
#include "tools/fsdp-opt/input/Files.h"
#include "tools/fsdp-opt/input/InputFile.h"
#include "tools/fsdp-opt/input/Progress.h"

#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/AsmState.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"

using namespace fsdp;
using namespace mlir;

CaptureOptions fsdp::getCaptureOptions(const CommandLine &line,
                                       const Config *config) {
  CaptureOptions options;
  options.path = line.input;
  options.inputs = line.inputs;
  options.dims = line.dims;
  // Explaining asks for nothing yet: the export's sizes serve as well.
  options.keepExportedDims = line.explain;
  options.request.mode = getCaptureMode(config);
  options.request.outputs = line.outputs;
  options.request.loss = line.loss;
  if (config) {
    options.request.acceptLostGradients = config->acceptLostGradients;
    options.request.fusesNorms = config->fusesNorms;
    options.request.weighsLoss = config->weighsLoss;
    options.request.holdsMasters = config->optimizer.holdsMasters;
    options.request.noiseAlpha = config->noiseAlpha;
    if (config->adapter)
      options.request.adapter = config->adapter->request;
    options.target = config->target;
    options.request.ties = config->ties;
    options.request.precision = config->precision;
    options.request.cutsSequences = config->cp > 1;
    options.request.headParts = config->tp;
    options.request.documentsPerRow = config->documentsPerRow.value_or(0);
    if (config->lossScale)
      options.request.lossScale = config->lossScale->init;
  }
  return options;
}

/// Of attention that is told where documents begin, if data says it, and of
/// nothing else.
static std::optional<int64_t> countDocumentsPerRow(Operation *op) {
  auto length = op->getAttrOfType<IntegerAttr>("max_q");
  if (op->getName().getStringRef() != "aten._flash_attention_forward" ||
      !length || length.getInt() == 0 || op->getNumOperands() != 5 ||
      op->getOperand(3).getDefiningOp<ConstantOp>())
    return std::nullopt;
  auto query = dyn_cast<RankedTensorType>(op->getOperand(0).getType());
  auto bounds = dyn_cast<RankedTensorType>(op->getOperand(3).getType());
  if (!query || !bounds || query.getRank() != 3)
    return std::nullopt;
  return (bounds.getDimSize(0) - 1) * length.getInt() / query.getDimSize(0);
}

/// What the captured loss is multiplied by at first.
static double getLossScale(ModuleOp module) {
  for (StateOp state : module.getOps<StateOp>())
    if (state.getRole() == Role::LossScale)
      if (auto init = dyn_cast_or_null<FloatAttr>(state.getValueAttr()))
        return init.getValueAsDouble();
  return 1;
}

/// NEFTune's alpha, or 0.
static double getNoise(ModuleOp module) {
  auto noise = findSetting<NoiseAttr>(module);
  return noise ? noise.getAlpha().getValueAsDouble() : 0;
}

OwningOpRef<ModuleOp> fsdp::readProgram(MLIRContext &context,
                                        const CommandLine &line,
                                        const Config *config,
                                        std::vector<OutputSummary> *outputs) {
  Progress::enter("reading " + line.input);
  DiagnosticCollector diagnostics(&context);
  if (line.inputKind == InputKind::Model)
    return loadCaptureLibrary().capture(
        context, getCaptureOptions(line, config), outputs);
  ParserConfig parser(&context);
  std::string name = line.input == "-" ? "standard input" : line.input;
  std::string bytes = readProgramBytes(line.input);
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(bytes, parser, name);
  if (!module)
    throw diagnostics.makeError(ErrorId::ProgramNotReadable,
                                "'" + name + "' holds no valid program");
  if (config && getDevice(*module) != config->target.describe())
    throw Error(ErrorId::ConfigNotSupported,
                "'" + name + "' was captured for device '" +
                    getDevice(*module).str() + "', but the config asks for '" +
                    config->target.describe() +
                    "'; compile it from the model file");
  if (config && config->target.isDeterministic)
    module->walk([&](Operation *op) {
      if (op->getName().getStringRef().starts_with(
              "aten._scaled_dot_product_cudnn_attention"))
        throw Error(ErrorId::ConfigNotSupported,
                    "'" + name +
                        "' was captured with cuDNN's attention, whose bits "
                        "differ from run to run, but the config asks for "
                        "deterministic; compile it from the model file");
    });
  if (config && config->documentsPerRow)
    module->walk([&](Operation *op) {
      std::optional<int64_t> documents = countDocumentsPerRow(op);
      if (documents && *documents != *config->documentsPerRow)
        throw Error(ErrorId::ConfigNotSupported,
                    "'" + name + "' was captured for rows of at most " +
                        std::to_string(*documents) +
                        " documents, but the config asks for " +
                        "documents_per_row: " +
                        std::to_string(*config->documentsPerRow) +
                        ", which only capture applies; compile it from the "
                        "model file");
    });
  if (config && !config->precision.isEmpty() &&
      getPrecision(*module).describe() != config->precision.describe()) {
    std::string captured = getPrecision(*module).describe();
    throw Error(
        ErrorId::ConfigNotSupported,
        "'" + name + "' was captured " +
            (captured.empty() ? "without mixed precision"
                              : "with mixed precision '" + captured + "'") +
            ", but the config asks for '" + config->precision.describe() +
            "', which only capture applies; compile it from the model "
            "file");
  }
  if (config && config->fusesNorms != (*module)->hasAttr(kNormsAttr))
    throw Error(ErrorId::ConfigNotSupported,
                "'" + name + "' was captured with norms: " +
                    (config->fusesNorms ? "written" : "fused") +
                    ", but the config asks for norms: " +
                    (config->fusesNorms ? "fused" : "written") +
                    ", which only capture applies; compile it from the model "
                    "file");
  if (config && !isForInference(*module) &&
      config->weighsLoss != llvm::any_of(getPrograms(*module), findLossWeight))
    throw Error(ErrorId::ConfigNotSupported,
                "'" + name + "' was captured with another loss_normalization " +
                    "than the config's, which only capture applies; compile "
                    "it from the model file");
  auto isMaster = [](StateOp state) {
    return isParameter(state) && state.getModelElement();
  };
  if (config && !config->optimizer.holdsMasters &&
      llvm::any_of(module->getOps<StateOp>(), isMaster))
    throw Error(ErrorId::ConfigNotSupported,
                "'" + name +
                    "' was captured with optimizer: {master_dtype: float32}, "
                    "which this config does not ask for and only capture "
                    "applies; compile it from the model file");
  if (config && !isForInference(*module) &&
      config->noiseAlpha != getNoise(*module))
    throw Error(ErrorId::ConfigNotSupported,
                "'" + name +
                    "' was captured with another neftune_noise_alpha " +
                    "than the config's, which only capture applies; compile "
                    "it from the model file");
  bool mayLackAdapters =
      config && config->adapter && config->adapter->request.yieldsToOwn;
  if (config && !mayLackAdapters &&
      config->adapter.has_value() !=
          (*module)->hasAttr(AdapterSettingsAttr::name))
    throw Error(ErrorId::ConfigNotSupported,
                "'" + name + "' was captured " +
                    (config->adapter ? "without" : "with") +
                    " adapters of a config, but this config asks for " +
                    (config->adapter ? "some" : "none") +
                    "; only capture puts them in: compile it from the model "
                    "file");
  if (config && !isForInference(*module) &&
      getLossScale(*module) !=
          (config->lossScale ? config->lossScale->init : 1))
    throw Error(ErrorId::ConfigNotSupported,
                "'" + name +
                    "' was captured with another first loss_scale than the "
                    "config's, which only capture applies; compile it from "
                    "the model file");
  return module;
}

OwningOpRef<ModuleOp> fsdp::readProgramFor(MLIRContext &context,
                                           const CommandLine &line,
                                           const LoadedConfig &loaded) {
  OwningOpRef<ModuleOp> module = readProgram(context, line, &loaded.config);
  compareStatedSizes(*module, loaded);
  checkMode(*module, loaded.config);
  checkDataInputs(*module, loaded.config);
  addModeNotes(*module, &loaded.config);
  warnOfUnread(*module);
  noteHalfStates(*module, loaded.config);
  return module;
}

std::string fsdp::printProgram(ModuleOp module, OutputKind kind,
                               bool locations) {
  std::string bytes;
  llvm::raw_string_ostream stream(bytes);
  if (kind == OutputKind::Bytecode) {
    // Only a version that the writer does not know makes this fail.
    if (failed(writeBytecodeToFile(module, stream)))
      throw Error(ErrorId::FileNotWritable,
                  "the program cannot be written as bytecode");
    return bytes;
  }
  OpPrintingFlags flags;
  if (locations)
    flags.enableDebugInfo();
  module->print(stream, flags);
  stream << '\n';
  return bytes;
}

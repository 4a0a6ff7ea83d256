//===- Mode.cpp - Training or inference -----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/compile/Mode.h"

#include "passes/analysis/Programs.h"
#include "passes/analysis/States.h"
#include "support/Error.h"
#include "tools/fsdp-opt/input/Diagnostics.h"

using namespace fsdp;
using namespace mlir;

CaptureMode fsdp::getCaptureMode(const Config *config) {
  if (config && config->mode)
    return *config->mode == Mode::Train ? CaptureMode::Train
                                        : CaptureMode::Inference;
  return config && config->hasOptimizer ? CaptureMode::Train
                                        : CaptureMode::Auto;
}

bool fsdp::isForInference(ModuleOp module) {
  SmallVector<func::FuncOp> programs = getPrograms(module);
  return !programs.empty() && llvm::all_of(programs, isInference);
}

void fsdp::checkMode(ModuleOp module, const Config &config) {
  bool inference = isForInference(module);
  if (config.mode == Mode::Inference && !inference)
    throw Error(ErrorId::ConfigBadValue,
                "'mode: inference' needs the model file: the program was "
                "captured for training");
  if (inference && getCaptureMode(&config) == CaptureMode::Train)
    throw Error(ErrorId::ConfigBadValue,
                "the program was captured for inference and has no gradients "
                "to train with; write 'mode: inference', or capture the model "
                "again with 'mode: train'");
}

/// Other than noise on embeddings, which validation is without.
static bool drawsItself(ModuleOp module) {
  auto noise = findSetting<NoiseAttr>(module);
  bool draws = false;
  module.walk([&](DrawOp draw) {
    draws |= !noise || !llvm::is_contained(noise.getSites().asArrayRef(),
                                           int64_t(draw.getSite()));
  });
  return draws;
}

/// A buffer that the program changes, or what it draws random numbers from;
/// null if there is none.
static StateOp findTrainingState(ModuleOp module) {
  StateTable states(module);
  for (func::FuncOp func : getPrograms(module))
    for (unsigned i = 0; i < func.getNumResults(); ++i)
      if (StateOp state = states.lookup(
              func.getResultAttrOfType<FlatSymbolRefAttr>(i, kStateAttr)))
        if (state.getRole() != Role::Random || drawsItself(module))
          return state;
  return {};
}

void fsdp::addModeNotes(ModuleOp module, const Config *config) {
  bool inference = isForInference(module);
  if (inference && (!config || !config->mode)) {
    addNote("note: the model has no trainable parameter, so it is compiled for "
            "inference (mode: inference in the config says so)");
    if (config && config->validation)
      addNote("note: 'eval' has no effect on a program for inference");
  }
  StateOp state;
  if (inference || (config && config->validation))
    state = findTrainingState(module);
  if (!state)
    return;
  std::string what =
      state.getRole() == Role::Random
          ? "draws random numbers"
          : "changes its buffer '" + state.getSymName().str() + "'";
  if (inference)
    addNote("note: the model " + what +
            ", as it does in training mode, and is run as it was exported; "
            "call eval() on it before the export if that is not meant");
  else
    addNote("note: the model " + what +
            ", as it does in training mode, and 'eval' computes the loss as "
            "the exported model does, without keeping what changes");
}

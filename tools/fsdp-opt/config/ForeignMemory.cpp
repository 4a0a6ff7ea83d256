//===- ForeignMemory.cpp - Other tools' keys of memory and sizes ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/ForeignReaders.h"
#include "tools/fsdp-opt/config/Formats.h"

using namespace fsdp;

/// Files of Axolotl have it beside fsdp_config's own, which counts.
void foreign::readGradientCheckpointing(const Value &value) {
  // What is offloaded there is what checkpoints keep.
  bool isOffloaded =
      value.node.IsScalar() &&
      (value.node.Scalar() == "offload" || value.node.Scalar() == "unsloth");
  if (!isOffloaded && !YamlReader::isBool(value.node))
    value.failType("true, false or offload");
  Config &config = value.reading.result.config;
  if (!value.reading.find("fsdp_config.activation_checkpointing") &&
      config.checkpointing.empty()) {
    config.checkpointing.emplace_back();
    value.reading.becomeValue("fsdp_config.activation_checkpointing", true);
  }
  value.reading.imply("fsdp_config.activation_checkpointing", value);
  if (isOffloaded) {
    config.offloadActivations = {"*"};
    value.reading.becomeValue("fsdp_config.activation_offloading", true);
    value.reading.imply("fsdp_config.activation_offloading", value);
  }
  value.reading.addMinor(
      value.node, "'" + value.key +
                      "' is taken as fsdp_config: "
                      "{activation_checkpointing: true" +
                      (isOffloaded ? ", activation_offloading: true}" : "}"));
}

/// Axolotl's words are ways to do it.
void foreign::readOffloading(const Value &value) {
  std::string word = value.node.IsScalar() ? value.node.Scalar() : "";
  if (word != "legacy" && word != "disk" && !YamlReader::isBool(value.node))
    value.failType("true, false, legacy or disk");
  if (word == "disk")
    value.reading.addNote(value.node, "'" + value.key +
                                          ": disk' is the host's memory here");
  value.reading.result.config.offloadActivations = {"*"};
  value.reading.becomeValue("fsdp_config.activation_offloading", true);
}

/// Kernels of a linear layer and its loss that keep no logits.
void foreign::readFusedLoss(const Value &value) {
  if (!Flag().read(value))
    return;
  if (!value.reading.find("fsdp_config.loss_chunks")) {
    value.reading.result.config.lossChunks = 0;
    value.reading.becomeValue("fsdp_config.loss_chunks", "auto");
  }
  value.reading.imply("fsdp_config.loss_chunks", value);
  value.reading.addMinor(value.node,
                         "'" + value.key +
                             "' is taken as fsdp_config: {loss_chunks: auto}");
}

//===----------------------------------------------------------------------===//
// Sizes that the export fixed
//===----------------------------------------------------------------------===//

static StatedSize readSize(const Value &value) {
  return {between(1, kMostSteps).read(value), value.key,
          value.reader().describePlace(value.node)};
}

void foreign::readRows(const Value &value) {
  value.reading.result.rows = readSize(value);
}

void foreign::readTokens(const Value &value) {
  value.reading.result.tokens = readSize(value);
}

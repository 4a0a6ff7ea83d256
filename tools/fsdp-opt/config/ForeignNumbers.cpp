//===- ForeignNumbers.cpp - Other tools' keys of element types ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Fields.h"
#include "tools/fsdp-opt/config/ForeignKeys.h"
#include "tools/fsdp-opt/config/ForeignReaders.h"

using namespace fsdp;

//===----------------------------------------------------------------------===//
// Precision
//===----------------------------------------------------------------------===//

static void takePrecision(const Value &value, const std::string &dtype) {
  Config &config = value.reading.result.config;
  PrecisionPolicy &precision = config.precision.policy;
  precision.paramDtype = precision.reduceDtype = precision.outputDtype = dtype;
  bool isScaled = dtype == "float16";
  if (isScaled && !config.lossScale)
    config.lossScale.emplace();
  value.reading.addNote(
      value.node,
      "'" + value.node.Scalar() + "' stands for {param_dtype: " + dtype +
          ", reduce_dtype: " + dtype + ", output_dtype: " + dtype + "}" +
          (isScaled ? " with loss_scale: dynamic" : "") + ", as in Accelerate");
}

/// What Accelerate makes of it under FSDP2 (accelerate,
/// utils/dataclasses.py, FullyShardedDataParallelPlugin.set_mixed_precision):
/// parameters, reductions and outputs in one type. Axolotl's `bf16` sets it.
void foreign::readPrecision(const Value &value) {
  std::string text = value.node.IsScalar() ? value.node.Scalar() : "";
  if (text == "fp16")
    return takePrecision(value, "float16");
  if (text != "bf16" && text != "true" && text != "True" && text != "auto")
    value.failType("no, bf16 or fp16");
  takePrecision(value, "bfloat16");
}

/// Axolotl's and transformers'.
void foreign::readFp16(const Value &value) {
  if (Flag().read(value))
    takePrecision(value, "float16");
}

//===----------------------------------------------------------------------===//
// Products of eight bits
//===----------------------------------------------------------------------===//

/// Axolotl's, which asks Accelerate for torchao's scaling by tensors.
void foreign::readFloat8(const Value &value) {
  if (!Flag().read(value))
    return;
  open(value.reading.result.config.float8);
  value.reading.imply("float8", value);
  value.reading.addNote(
      value.node,
      "'" + value.key +
          "' is taken as float8: {}, unless that is given: all linear layers, "
          "of which Accelerate leaves out the first and the last; float8: "
          "{modules: …} chooses");
}

void foreign::readFloat8Gather(const Value &value) {
  const YAML::Node &fp8 = value.reading.root["fp8"];
  bool isOn =
      (fp8 && !fp8.IsNull() && !isOff(fp8)) || value.reading.root["float8"];
  if (!Flag().read(value))
    return;
  if (!isOn)
    return value.reading.addNote(
        value.node, "'" + value.key + "' has no effect without fp8: true");
  open(value.reading.result.config.float8).allGather = true;
  value.reading.imply("float8.enable_fsdp_float8_all_gather", value);
  value.reading.addMinor(value.node,
                         "'" + value.key +
                             "' is taken as float8: "
                             "{enable_fsdp_float8_all_gather: true}");
}

//===----------------------------------------------------------------------===//
// Blocks of codes
//===----------------------------------------------------------------------===//

static void takeQuantized(const Value &value, QuantizeChoice kind) {
  Config &config = value.reading.result.config;
  if (!value.reading.find("quantize"))
    config.quantize.emplace().kind = kind;
  value.reading.imply("quantize", value);
  value.reading.addNote(
      value.node, "'" + value.key + "' is taken as quantize: {kind: " +
                      (kind == QuantizeChoice::Nf4 ? "nf4" : "int8") +
                      "}, unless that is given; an output layer that is frozen "
                      "is among them, skip_modules: lm_head leaves it out");
}

/// bitsandbytes' through transformers.
void foreign::readLoadIn4Bit(const Value &value) {
  if (Flag().read(value))
    takeQuantized(value, QuantizeChoice::Nf4);
}

void foreign::readLoadIn8Bit(const Value &value) {
  if (Flag().read(value))
    takeQuantized(value, QuantizeChoice::Int8);
}

/// Axolotl's. Adapters themselves are part of the exported model: a base that
/// is quantized has to be frozen there, which a model without them is not.
void foreign::readAdapter(const Value &value) {
  std::string text = value.node.IsScalar() ? value.node.Scalar() : "";
  auto isOn = [&](const char *key) {
    YAML::Node node = value.reading.root[key];
    return node && YamlReader::isBool(node) && node.as<bool>();
  };
  if (text == "qlora")
    return takeQuantized(value, QuantizeChoice::Nf4);
  if (text == "lora" && (isOn("load_in_4bit") || isOn("load_in_8bit")))
    return value.reading.addMinor(
        value.node, "'adapter: lora' is what the exported model has");
  value.reader().fail(
      ErrorId::ConfigNotSupported, value.node,
      "'adapter' cannot be had: apply adapters in Python before the export, "
      "as docs/examples/lora does; frozen parameters stay frozen");
}

//===- ForeignNumbers.cpp - Other tools' keys of element types ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Fields.h"
#include "tools/fsdp-opt/config/Foreign.h"
#include "tools/fsdp-opt/config/ForeignKeys.h"
#include "tools/fsdp-opt/config/ForeignReaders.h"

using namespace fsdp;

//===----------------------------------------------------------------------===//
// Precision
//===----------------------------------------------------------------------===//

void foreign::takePrecision(const Value &value, const std::string &dtype,
                            const std::string &word) {
  Config &config = value.reading.result.config;
  PrecisionPolicy &precision = config.precision.policy;
  precision.paramDtype = precision.reduceDtype = precision.outputDtype = dtype;
  for (const char *key : {"param_dtype", "reduce_dtype", "output_dtype"})
    value.reading.becomeValue(std::string("fsdp_config.mixed_precision.") + key,
                              dtype);
  bool isScaled = dtype == "float16";
  if (isScaled && !config.lossScale) {
    config.lossScale.emplace();
    value.reading.becomeValue("loss_scale", "dynamic");
  }
  value.reading.addNote(
      value.node, "'" + word + "' stands for {param_dtype: " + dtype +
                      ", reduce_dtype: " + dtype + ", output_dtype: " + dtype +
                      "}" + (isScaled ? " with loss_scale: dynamic" : "") +
                      (value.node.IsScalar() ? ", as in Accelerate" : ""));
}

/// What asks Accelerate for torchao's scaling by tensors.
static void takeFloat8(const Value &value) {
  open(value.reading.result.config.float8);
  value.reading.imply("float8", value);
  value.reading.become("float8", YAML::Node(YAML::NodeType::Map));
  value.reading.addNote(
      value.node,
      "'" + value.key +
          "' is taken as float8: {}, unless that is given: all linear layers, "
          "of which Accelerate leaves out the first and the last; float8: "
          "{modules: …} chooses");
}

/// What Accelerate makes of it under FSDP2 (accelerate,
/// utils/dataclasses.py, FullyShardedDataParallelPlugin.set_mixed_precision):
/// parameters, reductions and outputs in one type. Axolotl's `bf16` sets it.
void foreign::readPrecision(const Value &value) {
  std::string text = value.node.IsScalar() ? value.node.Scalar() : "";
  if (text == "fp16")
    return takePrecision(value, "float16", text);
  if (text == "fp8")
    takeFloat8(value);
  else if (text != "bf16" && text != "true" && text != "True" && text != "auto")
    value.failType("no, bf16, fp16 or fp8");
  takePrecision(value, "bfloat16", text);
}

/// Axolotl's and transformers'.
void foreign::readFp16(const Value &value) {
  if (Flag().read(value))
    takePrecision(value, "float16", value.node.Scalar());
}

//===----------------------------------------------------------------------===//
// Products of eight bits
//===----------------------------------------------------------------------===//

/// Axolotl's.
void foreign::readFloat8(const Value &value) {
  if (Flag().read(value))
    takeFloat8(value);
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
  value.reading.becomeValue("float8.enable_fsdp_float8_all_gather", true);
  value.reading.addMinor(value.node,
                         "'" + value.key +
                             "' is taken as float8: "
                             "{enable_fsdp_float8_all_gather: true}");
}

//===- Float8Fields.cpp - Products of eight bits in the config ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Keys and defaults of torchao's Float8LinearConfig and torchtitan's converter.
//
//===----------------------------------------------------------------------===//

#include "tools/fsdp-opt/config/Checks.h"
#include "tools/fsdp-opt/config/Tables.h"

using namespace fsdp;

static const Table<Float8Config> &getFloat8() {
  static const Table<Float8Config> table = {
      "float8",
      {
          {"recipe", &Float8Config::recipe,
           "what shares a scale: `tensorwise` a whole tensor, `rowwise` the "
           "numbers that a product sums up"},
          {"modules",
           &Float8Config::modules,
           NameList{"pattern"},
           "paths of the linear layers, or of modules around them",
           {.absent = "`*`: all linear layers"}},
          {"enable_fsdp_float8_all_gather", &Float8Config::allGather,
           "weights are cast on their shards and gathered as one byte an "
           "element; with `tensorwise`"},
          {"pad_inner_dim", &Float8Config::padInnerDim,
           "layers whose sizes are no multiples of 16, too, as if these were "
           "filled up with zeros; without it they stay as they are"},
      }};
  return table;
}

Field<Config> fsdp::getFloat8Field() {
  return section<Config>(
      "float8", &Config::float8, getFloat8(),
      "linear layers that multiply numbers of eight bits, [see "
      "below](#linear-layers-in-float8)",
      {.absent = "none", .mayBeEmpty = true});
}

static void checkFloat8(Reading &reading) {
  const Config &config = reading.result.config;
  if (!config.float8)
    return;
  if (config.float8->modules.empty())
    reading.refuse("float8.modules",
                   "'modules' expects a pattern of linear layers' paths such "
                   "as \"layers.*\", or a list of them; leave 'float8' out for "
                   "none");
  if (config.float8->allGather &&
      config.float8->recipe == Float8Choice::Rowwise)
    reading.refuse("float8.enable_fsdp_float8_all_gather",
                   "'enable_fsdp_float8_all_gather' needs recipe: tensorwise; "
                   "by rows, a weight's scales differ from product to product");
  const std::string key = reading.quote("float8");
  if (config.float8->allGather && config.offloadParams)
    reading.refuse("float8.enable_fsdp_float8_all_gather",
                   key + " with " +
                       reading.quote("float8.enable_fsdp_float8_all_gather") +
                       " is not supported with " +
                       reading.quote("fsdp_config.offload_params") +
                       "; leave one of them out",
                   ErrorId::ConfigNotSupported);
  if (!config.offloadActivations.empty())
    reading.refuse("float8",
                   key + " is not supported with " +
                       reading.quote("fsdp_config.activation_offloading") +
                       "; leave one of them out",
                   ErrorId::ConfigNotSupported);
  // Ranks that compute a step together have parts of what a scale is of.
  for (auto [axis, ranks] : {std::pair("tp", config.tp), {"cp", config.cp}})
    if (ranks > 1)
      reading.refuse("float8",
                     key + " is not supported with mesh: {" + axis + ": " +
                         std::to_string(ranks) + "}; leave one of them out",
                     ErrorId::ConfigNotSupported);
  if (config.target.device == Target::Device::Cuda)
    reading.refuse(
        "float8",
        key + " is not supported on GPUs, whose kernels want "
              "operands of other layouts; leave it out, or compile for "
              "device: cpu",
        ErrorId::ConfigNotSupported);
}

std::span<const Check> fsdp::getFloat8Checks() {
  static const Check all[] = {
      {{"float8", "mesh", "device", "fsdp_config.offload_params",
        "fsdp_config.activation_offloading"},
       checkFloat8},
  };
  return all;
}

//===- QuantizeFields.cpp - Frozen bases in blocks in the config ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Checks.h"
#include "tools/fsdp-opt/config/Tables.h"

using namespace fsdp;

static const Table<QuantizeConfig> &getQuantize() {
  static const Table<QuantizeConfig> table = {
      "quantize",
      {
          {"modules",
           &QuantizeConfig::modules,
           NameList{"pattern"},
           "paths of the linear layers whose frozen matrices are meant, or of "
           "modules around them; other matrices by their own names",
           {.absent = "`*`: all"}},
          {"kind", &QuantizeConfig::kind,
           "what blocks of 64 elements hold: `nf4` codes of 4 bits as QLoRA's "
           "NormalFloat, `int8` whole numbers from -127 to 127, and a scale"},
          {"skip_modules",
           &QuantizeConfig::skip,
           NameList{"pattern"},
           "the same of what stays as it is: `lm_head`",
           {.absent = "none"}},
      }};
  return table;
}

Field<Config> fsdp::getQuantizeField() {
  return section<Config>(
      "quantize", &Config::quantize, getQuantize(),
      "frozen matrices that are held, and travel, in blocks of codes, [see "
      "Quantized.md](Quantized.md)",
      {.absent = "none", .mayBeEmpty = true});
}

static void checkQuantize(Reading &reading) {
  const Config &config = reading.result.config;
  if (!config.quantize)
    return;
  if (config.quantize->modules.empty())
    reading.refuse("quantize.modules",
                   "'modules' expects a pattern of modules' paths such as "
                   "\"layers.*\", or a list of them; leave 'quantize' out for "
                   "none");
  auto refuse = [&](const std::string &with, const std::string &why) {
    reading.refuse("quantize",
                   reading.quote("quantize") + " is not supported with " +
                       with + why + "; leave one of them out",
                   ErrorId::ConfigNotSupported);
  };
  for (auto [key, ranks] : {std::pair("tp", config.tp), {"cp", config.cp}})
    if (ranks > 1)
      refuse(std::string("mesh: {") + key + ": " + std::to_string(ranks) + "}",
             ", whose ranks have parts of a matrix");
  if (config.target.device == Target::Device::Cuda)
    refuse("device: cuda", ", where nothing reads blocks of codes yet");
  if (config.float8)
    refuse(reading.quote("float8"), ", which casts the parameter itself");
  if (config.grains != 0)
    refuse(reading.quote("fsdp_config.grains"),
           ": that the bits are those of any number of ranks is not shown");
  if (config.offloadParams)
    refuse(reading.quote("fsdp_config.offload_params"),
           ", which moves numbers between memories");
}

std::span<const Check> fsdp::getQuantizeChecks() {
  static const Check all[] = {
      {{"quantize", "mesh", "device", "float8", "fsdp_config.grains",
        "fsdp_config.offload_params"},
       checkQuantize},
  };
  return all;
}

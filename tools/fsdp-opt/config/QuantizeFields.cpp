//===- QuantizeFields.cpp - Frozen bases in blocks in the config ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Tables.h"

using namespace fsdp;

static const Table<QuantizeConfig> &getQuantize() {
  static const Table<QuantizeConfig> table = {
      "quantize",
      {
          {"modules",
           &QuantizeConfig::modules,
           NameList{"pattern", "leave 'quantize' out for none"},
           "paths of the linear layers whose frozen matrices are meant, or of "
           "modules around them; other matrices by their own names",
           {.absent = "`*`: all"}},
          {"kind", &QuantizeConfig::kind,
           "what blocks hold: `nf4` codes of 4 bits as QLoRA's NormalFloat, "
           "`fp4` codes of a sign and 8 magnitudes, `int8` whole numbers from "
           "-127 to 127, and a scale"},
          {"block_size", &QuantizeConfig::blockSize, kBlockSize,
           "elements of a block"},
          {"double_quant", &QuantizeConfig::doubleQuant,
           "scales are codes of 8 bits as well, 256 of them together"},
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

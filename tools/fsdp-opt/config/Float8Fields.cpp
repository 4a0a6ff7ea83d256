//===- Float8Fields.cpp - Products of eight bits in the config ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Keys and defaults of torchao's Float8LinearConfig and torchtitan's converter.
//
//===----------------------------------------------------------------------===//

#include "tools/fsdp-opt/config/Tables.h"

using namespace fsdp;

static const Table<Float8Config> &getFloat8() {
  static const Table<Float8Config> table = {
      "float8",
      {
          {"recipe", &Float8Config::recipe,
           "what shares a scale: `tensorwise` a whole tensor, `rowwise` the "
           "numbers that a product sums up, `mxfp8` each 32 neighbours of "
           "these"},
          {"modules",
           &Float8Config::modules,
           NameList{"pattern", "leave 'float8' out for none"},
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

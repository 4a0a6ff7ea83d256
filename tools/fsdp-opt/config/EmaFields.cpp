//===- EmaFields.cpp - Averages of the weights, in the config -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Tables.h"

using namespace fsdp;

static constexpr Number kDecay{[](double x) { return x >= 0 && x <= 1; },
                               "from 0 to 1"};

static constexpr Number kAboveZero{[](double x) { return x > 0; }, "above 0"};

static const Table<EmaConfig> &getEma() {
  const Choice<bool> types = {{{"float32", false}, {"parameter", true}}};
  static const Table<EmaConfig> table = {
      "ema",
      {
          {"decay", &EmaConfig::decay, kDecay,
           "what is left of the average behind an update"},
          // Numbers of updates are counted in float32.
          {"update_after_step", &EmaConfig::updateAfterStep,
           between(0, 1 << 24),
           "updates behind which averaging begins; until then, and behind the "
           "next one, the average is the parameter"},
          {"every", &EmaConfig::every, between(1, 1 << 24),
           "updates from one averaging to the next"},
          {"warmup", &EmaConfig::warmup,
           "a decay that begins lower: `ratio`, (1 + t) / (10 + t), or "
           "`power`, 1 - (1 + t / warmup_gamma) ^ -warmup_power, up to "
           "`decay`"},
          {"warmup_gamma", &EmaConfig::gamma, kAboveZero,
           "of `power`; timm's and diffusers' `inv_gamma`"},
          {"warmup_power", &EmaConfig::power, kAboveZero, "of `power`"},
          {"dtype", &EmaConfig::keepsType, types,
           "in which averages are held: parameters of fewer bits have "
           "`float32`, or `parameter`, their own type"},
      }};
  return table;
}

/// A number is that of `decay`.
static void readDecayWord(const Value &value, EmaConfig &ema) {
  if (!YamlReader::isNumber(value.node))
    value.failType("a decay, such as 0.999, or a map");
  ema.decay = kDecay.read(value);
  value.reading.become("ema.decay", value.node);
}

Field<Config> fsdp::getEmaField() {
  return section<Config>(
      "ema", &Config::ema, getEma(),
      "keeps an exponential moving average of each trained parameter, which "
      "`fsdp-run --export-ema` writes, [see below](#averages-of-the-weights); "
      "a number is its `decay`",
      {.absent = "none", .type = "number, or map", .mayBeEmpty = true},
      std::function(readDecayWord));
}

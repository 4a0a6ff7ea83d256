//===- MetricsFields.cpp - What steps report, in the config ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Tables.h"

using namespace fsdp;

namespace {
struct NormWord {
  std::string_view word;
  bool NormsConfig::*member;
};
constexpr NormWord kNorms[] = {{"gradients", &NormsConfig::gradients},
                               {"weights", &NormsConfig::weights},
                               {"updates", &NormsConfig::updates}};
} // namespace

/// One of the words, or a list of them.
static void readNorms(const Value &value, NormsConfig &norms) {
  for (const std::string &word : NameList().read(value)) {
    const auto *found = std::ranges::find(kNorms, word, &NormWord::word);
    if (found == std::end(kNorms))
      value.fail("expected gradients, weights or updates, found '" + word +
                 "'");
    norms.*found->member = true;
  }
}

static const Table<NormsConfig> &getMetrics() {
  static const Table<NormsConfig> table = {
      "metrics",
      {
          {"norms", readNorms, "list of `gradients`, `weights` and `updates`",
           "none",
           "norms that a step reports beside that of all gradients: of "
           "gradients before they are clipped, of weights before and of what "
           "the update adds to them, for which copies of them are kept"},
          {"by", &NormsConfig::byModule,
           Choice<bool>{{{"module", true}, {"parameter", false}}},
           "of what: of a stack of layers each layer (`model.layers.0`), else "
           "the module that has the parameter; or each trained parameter"},
      }};
  return table;
}

Field<Config> fsdp::getMetricsField() {
  return section<Config>("metrics", &Config::norms, getMetrics(),
                         "what steps report by module or parameter, [see "
                         "below](#norms-by-module)",
                         {.absent = "nothing", .mayBeEmpty = true});
}

//===- StepModel.cpp - The model of a step, asked from outside ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//   fsdp-step-model ARTIFACT CLUSTER < questions.json > answers.json
//
// Questions: "decisions" to evaluate, "budgets" (bytes of the planned peak) to
// search, and "prefetches", whether the search may change that.
//
//===----------------------------------------------------------------------===//

#include "decide/Search.h"
#include "plan/Reader.h"
#include "support/Exceptions.h"

#include <nlohmann/json.hpp>

#include <iostream>

using namespace fsdp;
using nlohmann::json;

static json toJson(const Decisions &decisions) {
  json recomputed = json::array();
  for (Recomputed each : decisions.recomputed)
    recomputed.push_back(int(each));
  return {{"kept", decisions.kept},
          {"prefetch", decisions.prefetch},
          {"recomputed", recomputed},
          {"offloaded", decisions.offloaded}};
}

static Decisions fromJson(const json &text) {
  Decisions decisions;
  decisions.kept = text.at("kept").get<std::vector<bool>>();
  decisions.prefetch = text.at("prefetch").get<std::vector<uint32_t>>();
  for (int each : text.at("recomputed"))
    decisions.recomputed.push_back(Recomputed(each));
  decisions.offloaded = text.at("offloaded").get<std::vector<bool>>();
  return decisions;
}

static json describe(const StepModel &model) {
  json buckets = json::array(), blocks = json::array();
  for (const BucketFacts &each : model.buckets())
    buckets.push_back({{"name", each.name}, {"regathered", each.isRegathered}});
  for (const BlockFacts &each : model.blocks())
    blocks.push_back({{"name", each.name},
                      {"selected", each.selected},
                      {"dropped", each.dropped},
                      {"saved", each.saved}});
  return {
      {"buckets", buckets}, {"blocks", blocks}, {"none", toJson(model.none())}};
}

static json answer(const StepModel &model, const json &questions) {
  json answers = describe(model);
  for (const json &each : questions.value("decisions", json::array())) {
    Decisions decisions = fromJson(each);
    Outcome outcome = model.evaluate(decisions);
    MemoryProfile profile = model.profile(decisions);
    answers["outcomes"].push_back({{"seconds", outcome.seconds},
                                   {"peak", outcome.peak},
                                   {"at", profile.at},
                                   {"again", profile.again}});
  }
  if (!questions.contains("budgets"))
    return answers;
  SearchOptions options;
  options.prefetches = questions.at("prefetches");
  Search search(model, options);
  for (uint64_t budget : questions.at("budgets")) {
    json &chosen = answers["chosen"].emplace_back();
    if (std::optional<Candidate> found = search.choose(budget))
      chosen = {{"decisions", toJson(found->decisions)},
                {"seconds", found->outcome.seconds},
                {"peak", found->outcome.peak}};
  }
  return answers;
}

int main(int argc, char **argv) {
  try {
    if (argc != 3)
      throw Error(ErrorId::BadUsage, "expected an artifact and a cluster");
    PlanFile file = PlanFile::read(argv[1]);
    Cluster cluster = Cluster::load(argv[2]);
    StepModel model(file.plan(), cluster);
    std::cout << answer(model, json::parse(std::cin)) << '\n';
  } catch (const std::exception &error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}

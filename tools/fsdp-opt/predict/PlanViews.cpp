//===- PlanViews.cpp - A predicted step, as it was asked for --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/predict/PlanViews.h"

#include "simulate/PredictionText.h"
#include "support/Error.h"

using namespace fsdp;

static std::string makeView(const std::string &path, const plan::PlanT &plan,
                            const Prediction &prediction) {
  if (path == "-" || path.ends_with(".txt"))
    return printPrediction(plan, prediction);
  if (path.ends_with(".json"))
    return printPredictionJson(plan, prediction);
  if (path.ends_with(".trace"))
    return printPredictionTrace(plan, prediction);
  throw Error(ErrorId::BadUsage,
              "--print-plan=" + path +
                  ": the suffix says what to write; expected .txt (tables), "
                  ".json, or .trace (for ui.perfetto.dev)");
}

std::vector<PlanView> fsdp::makePlanViews(const plan::PlanT &plan,
                                          const CommandLine &line,
                                          const Cluster &cluster) {
  Prediction prediction = simulate(plan, cluster);
  std::vector<PlanView> views;
  for (const std::string &path : line.planViews)
    views.push_back({path, makeView(path, plan, prediction)});
  return views;
}
